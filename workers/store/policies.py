"""The policies users register, on disk and in the catalogue.

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
from policies.table import Table
from scheduler.log import note
from scheduler.wire.catalogue import ShelfBody
from workers.helper import Service, Shelved
from workers.policy_bounds import BYTES_MAX, NAME_MAX, POLICIES_MAX, SHELF_BYTES_MAX, fault_of
from workers.pool import Pool
from workers.runner import Tell
from workers.session import Judge

log = logging.getLogger(__name__)
PREFIX = "user."
# Keys of the pull protocol that may stand beside a policy's own.
_PULL_KEYS = frozenset({"model", "stream", "do_not_upgrade", "checkpoint"})


class Refused(Exception):
    """A registration is refused; the text is what the client reads."""


class Policies:
    """User policies by name."""

    def __init__(self, folder: Path) -> None:
        """Read what is kept.

        Args:
            folder: Where the files are; made when the first is written.
        """
        self._folder = folder
        self._table: Table | None = None
        self._documents: dict[str, bytes] = {}
        self._parsed: dict[str, Policy] = {}
        # one registration at a time, beside the loop: patterns take their time to compile
        self._pool = Pool(1, "policies")
        for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            self._read(file)

    def learn(self, table: Table) -> None:
        """Learn the table: its rows are the components a policy may name."""
        self._table = table

    def tell(self, tell: Tell) -> None:
        """Tell the broker what there is."""
        self._pool.submit(lambda: self._publish(tell))

    def register(self, question: Judge, tell: Tell) -> None:
        """Register a policy."""
        self._pool.begin(question, lambda: self._answer(question, tell))

    def _answer(self, question: Judge, tell: Tell) -> None:
        try:
            name = self._register(question.body)
        except Refused as error:
            tell(_reply(question, 400, {"error": str(error)}))
            return
        except OSError as error:
            text = f"cannot keep the policy in {self._folder}: {error.strerror}"
            tell(_reply(question, 400, {"error": text}))
            return
        self._publish(tell)
        done = {"status": "success", "model_name": name, "recipe": "collection.router"}
        tell(_reply(question, 200, done))

    def _register(self, raw: bytes) -> str:
        table = self._table
        if table is None:
            raise Refused("the table is not there yet; try again")
        if len(raw) > 2 * BYTES_MAX:
            raise Refused(f"the policy has {len(raw)} bytes; at most {BYTES_MAX} are taken")
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
        text = msgspec.json.encode(document)
        fault = (
            self._name_fault(name, table)
            or fault_of(document, len(text))
            or self._room_fault(name, text)
        )
        if fault:
            raise Refused(fault)
        policy = self._parse(document, name, table)
        _write(self._file(name), text)
        self._documents[name], self._parsed[name] = text, policy
        return name

    def _name_fault(self, name: str, table: Table) -> str | None:
        if name == POLICY_NAME:
            return f"'{POLICY_NAME}' is the policy of the table in force; change the table"
        if name in table.rows:
            return f"'{name}' is a row of the table in force; register under another name"
        if len(name) > NAME_MAX:
            return f"a name has at most {NAME_MAX} characters"
        return None

    def _room_fault(self, name: str, text: bytes) -> str | None:
        others = {k: v for k, v in self._documents.items() if k != name}
        if len(others) >= POLICIES_MAX:
            return f"{POLICIES_MAX} policies are registered already"
        if sum(map(len, others.values())) + len(text) > SHELF_BYTES_MAX:
            return f"all registered policies together may have {SHELF_BYTES_MAX} bytes"
        return None

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
        shelf = ShelfBody(
            collections={name: policy.default_model for name, policy in self._parsed.items()},
            slow=[name for name, policy in self._parsed.items() if policy.helper_models],
            policies={name: msgspec.Raw(text) for name, text in self._documents.items()},
        )
        tell(Shelved(msgspec.json.encode(shelf)))

    def _file(self, name: str) -> Path:
        # a digest, because a registered name may hold any character and be of any length
        return (
            self._folder / f"{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}.json"
        )

    def _read(self, file: Path) -> None:
        try:
            fault = self._take(file)
        except (OSError, ValueError, RecursionError, PolicyError) as error:
            fault = str(error)
        if fault:
            note(log, "policy_unreadable", level=logging.WARNING, file=file.name, error=fault)

    def _take(self, file: Path) -> str | None:
        text = file.read_bytes()
        document = msgspec.json.decode(text, type=dict[str, object])
        name = document.get("model_name")
        if not isinstance(name, str) or not name.startswith(PREFIX) or file != self._file(name):
            return "it is not of the name that its file is for"
        fault = fault_of(document, len(text))
        if fault is None:
            self._documents[name], self._parsed[name] = text, parse_policy(document)
        return fault


def _reply(question: Judge, status: int, body: dict[str, str]) -> Service:
    return Service(question.ticket, status, msgspec.json.encode(body))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    with fresh.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
