"""From a row and an engine's template to the command that starts a server, or why there is none."""

import subprocess
import sys

from policies.pins import DEFAULT_TEMPLATE
from policies.table import Row
from policies.why import Reason
from scheduler.settings import EngineConf
from workers.job import JobError
from workers.pinned import Pinned
from workers.rows import extras_of, file_of, unusable, used
from workers.upstream.templates import command_of

_TAGS_S = 20.0  # a program that lists its models answers within this


class CommandLine:
    """How a row's server is started."""

    def __init__(
        self, row: Row, engine: str, conf: EngineConf, threads: int, pinned: Pinned
    ) -> None:
        """Remember what to start.

        Args:
            row: The row.
            engine: Name of the engine, for errors.
            conf: Its template.
            threads: Processor threads it may use.
            pinned: What the file's templates are held to.
        """
        self.row = row
        self.engine = engine
        self.conf = conf
        self._pinned = pinned
        self._threads = threads

    def check(self) -> tuple[str, str]:
        """Return the digest of the chat template that will be served, and what the pins say of it.

        Both are empty where a server keeps its own.

        Raises:
            JobError: 503: it is not the pinned one, or the file or the tag is not here.
        """
        if self.row.tag is not None:
            self._check_tag()
            return "", ""
        path = file_of(self.row)
        digests = self._pinned.check(self.row, path)
        for extra, file in extras_of(self.row) if self.row.extra_files else ():
            self._pinned.check_extra(self.row, extra, file)
        return digests.get(DEFAULT_TEMPLATE, ""), self._pinned.verdict(path, digests)

    def command(self) -> list[str]:
        """Return program and arguments, but for the port, which is drawn for each start.

        Raises:
            JobError: 503: the row has what the engine cannot use, or a file is not here.
        """
        row, conf = self.row, self.conf
        values = {
            "model": row.model,
            "device": row.device,
            "ctx": str(row.ctx),
            "ctx_all": str(row.ctx * row.slots),
            "slots": str(row.slots),
            "threads": str(self._threads),
            "python": sys.executable,
            "tag": row.tag or "",
        }
        if row.tag is None:
            values["path"] = str(file_of(row))
            used(row)
        elif "{path}" in conf.command:
            raise self.unusable(f"the engine {self.engine} takes a file, and the row has a tag")
        command = command_of(conf.command, values)
        if row.slots > 1:
            command += command_of(conf.parallel, values)
        if row.type != "llm":
            flags = conf.types.get(row.type)
            if flags is None:
                raise self.unusable(f"the engine {self.engine} serves no {row.type} model")
            command += command_of(flags, values)
        for extra in row.extra_files:
            if extra.role not in conf.roles:
                text = f"the engine {self.engine} cannot use its {extra.role} file {extra.file}"
                raise self.unusable(f"{text}; see engines.{self.engine}.roles")
        for extra, file in extras_of(row) if row.extra_files else ():
            command += command_of(conf.roles[extra.role], {**values, "file": str(file)})
        return command

    def _check_tag(self) -> None:
        """Refuse a tag that the engine has not installed: a server that is asked for one pulls it unbidden.

        Raises:
            JobError: It is not there, or nobody can tell.
        """
        tag, listing = self.row.tag, self.conf.tags
        if tag is None or not listing:
            return
        command = command_of(listing, {"python": sys.executable})
        try:
            done = subprocess.run(  # noqa: S603  # the site chose the program
                command, capture_output=True, text=True, timeout=_TAGS_S, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self.unusable(f"`{listing}` does not tell what is installed: {error}") from error
        if done.returncode != 0:
            said = done.stderr.strip()[-200:]
            raise self.unusable(f"`{listing}` ended with status {done.returncode}: {said}")
        if tag not in done.stdout.replace(",", " ").replace('"', " ").split():
            raise self.unusable(f"the tag {tag} is not installed; `{listing}` does not name it")

    def unusable(self, text: str) -> JobError:
        """Return the error of a row that cannot be loaded."""
        return unusable(self.row, Reason.LOAD_FAILED, text)
