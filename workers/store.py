"""The store worker: keeps the policies users register, on disk and in the catalogue.

One file a policy, written whole or not at all, so that a crash at any byte leaves the policy as it was
before or as it is after. A file that cannot be read any more is named in the log and left where it is.
"""

import hashlib
import logging
import os
from pathlib import Path

import msgspec

from policies.desugar import POLICY_NAME
from policies.document import Policy
from policies.errors import PolicyError
from policies.parse import parse_policy
from policies.shape import is_array, is_object
from policies.table import Table, parse_table
from scheduler.log import note
from scheduler.wire.catalogue import CatalogueBody
from workers.helper import Service, Shelved
from workers.runner import Tell
from workers.session import Judge

log = logging.getLogger(__name__)
PREFIX = "user."
POLICIES_MAX = 1024  # as many as one catalogue message may name
# Keys of the pull protocol that may stand beside a policy's own.
_PULL_KEYS = frozenset({"model", "stream", "do_not_upgrade", "checkpoint"})


class Refused(Exception):
    """A registration is refused; the text is what the client reads."""


class Store:
    """User policies by name."""

    def __init__(self, folder: Path) -> None:
        """Read what is kept.

        Args:
            folder: Where the files are; made when the first is written.
        """
        self._folder = folder
        self._table: Table | None = None
        self._documents: dict[str, dict[str, object]] = {}
        self._parsed: dict[str, Policy] = {}
        for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            self._read(file)

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn the table: its rows are the components a policy may name."""
        self._table = parse_table(body.table)

    def joined(self, tell: Tell) -> None:
        """Tell the broker what there is."""
        self._publish(tell)

    def begin(self, question: Judge, tell: Tell) -> None:
        """Register a policy."""
        try:
            name = self._register(question.body)
        except Refused as error:
            body = msgspec.json.encode({"error": str(error)})
            tell(Service(question.ticket, 400, body))
            return
        except OSError as error:
            text = f"cannot keep the policy in {self._folder}: {error.strerror}"
            tell(Service(question.ticket, 400, msgspec.json.encode({"error": text})))
            return
        self._publish(tell)
        done = {"status": "success", "model_name": name, "recipe": "collection.router"}
        tell(Service(question.ticket, 200, msgspec.json.encode(done)))

    def _register(self, raw: bytes) -> str:
        table = self._table
        if table is None:
            raise Refused("the table is not there yet; try again")
        try:
            body: object = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(f"Invalid JSON in request body: {error}") from error
        document = {k: v for k, v in body.items() if k not in _PULL_KEYS} if is_object(body) else {}
        name = document.get("model_name")
        if not isinstance(name, str) or not name.startswith(PREFIX) or name == PREFIX:
            example = "for example `user.Phi-4-Mini-GGUF`"
            raise Refused(
                "Registered model definitions must use a non-empty `user.*` name, "
                f"{example}. Received: {name if isinstance(name, str) else ''}"
            )
        if name == POLICY_NAME:
            raise Refused(f"'{POLICY_NAME}' is the policy of the table in force; change the table")
        if len(self._documents) >= POLICIES_MAX and name not in self._documents:
            raise Refused(f"{POLICIES_MAX} policies are registered already")
        policy = self._parse(document, name, table)
        _write(self._file(name), msgspec.json.encode(document))
        self._documents[name], self._parsed[name] = document, policy
        return name

    def _parse(self, document: dict[str, object], name: str, table: Table) -> Policy:
        try:
            policy = parse_policy(
                document, model_type=lambda m: table.rows[m].type if m in table.rows else None
            )
        except PolicyError as error:
            raise Refused(f"Invalid collection.router routing policy: {error}") from error
        components = document.get("components")
        for component in components if is_array(components) else ():
            if component == name or component in self._documents or component not in table.rows:
                raise Refused(
                    f"Collection component not registered: '{component}'. "
                    "Pull or register it before referencing it in a collection."
                )
        return policy

    def _publish(self, tell: Tell) -> None:
        tell(
            Shelved(
                collections={name: policy.default_model for name, policy in self._parsed.items()},
                slow=[name for name, policy in self._parsed.items() if policy.helper_models],
                policies=msgspec.json.encode(self._documents),
            )
        )

    def _file(self, name: str) -> Path:
        # a digest, because a registered name may hold any character and be of any length
        return (
            self._folder / f"{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}.json"
        )

    def _read(self, file: Path) -> None:
        try:
            document = msgspec.json.decode(file.read_bytes(), type=dict[str, object])
            policy, name = parse_policy(document), str(document["model_name"])
            self._parsed[name], self._documents[name] = policy, document
        except (OSError, msgspec.DecodeError, PolicyError, KeyError) as error:
            note(log, "policy_unreadable", level=logging.WARNING, file=file.name, error=str(error))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    with fresh.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
