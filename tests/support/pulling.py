"""Pulling from the fake hub with the real client: rows, files with templates, and a store that is asked."""

import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from huggingface_hub import constants

from policies.table import Row, Table, parse_table
from scheduler.settings import Store as Conf
from scheduler.wire.catalogue import CatalogueBody
from scheduler.wire.words import RowStock
from support.fakehub import FakeHub
from support.gguf import write_gguf
from support.helping import Ear, row, table
from workers.helper import Pulled, PullMoved, Stocked
from workers.store.worker import Store

REPO, FILE = "org/small-GGUF", "small.gguf"
TEMPLATE = "{{ messages }} €"
DIGEST = hashlib.sha256(TEMPLATE.encode()).hexdigest()


def gguf(folder: Path, template: str | None = TEMPLATE, *, kib: int = 300, seed: int = 1) -> bytes:
    """Return a GGUF of about this size, with a chat template or without one."""
    weights = np.random.default_rng(seed).random((kib, 256))
    values = {"general.architecture": "llama"}
    if template is not None:
        values["tokenizer.chat_template"] = template
    path = write_gguf(folder / f"{seed}.made", dict(values), {"t": weights})
    content = path.read_bytes()
    path.unlink()
    return content


def hub_row(
    model: str = "M", repo: str = REPO, file: str | None = FILE, **other: object
) -> dict[str, object]:
    """Return a row that comes from the hub."""
    made = row(model, **{"template_sha256": DIGEST, **other})  # type: ignore[arg-type]  # a test's shorthand
    del made["package"], made["file"]
    return {**made, "hf_repo": repo} | ({} if file is None else {"file": file})


def table_of(*rows: dict[str, object]) -> Table:
    """Return the table that `Puller` has of these rows."""
    return parse_table(table(*rows))


def row_of(raw: dict[str, object]) -> Row:
    """Return a row as the table has it."""
    return table_of(raw).rows[str(raw["model"])]


@contextmanager
def reachable(url: str, monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[None]:
    """Point the client of this process at a hub; it reads its environment once, when it is imported."""
    before = constants.ENDPOINT
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(before, url)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield
    while Puller.made:
        Puller.made.pop().close()


class Puller:
    """A store that pulls, and what it says."""

    made: ClassVar[list["Puller"]] = []  # to be closed

    def __init__(self, folder: Path, *rows: dict[str, object], **conf: object) -> None:
        """Start one.

        Args:
            folder: Its models are in `models`.
            rows: Of the table, beside those that every table has.
            conf: Settings of the store other than the defaults of tests.
        """
        known: dict[str, object] = {"timeout_s": 10.0, "attempts": 2, **conf}
        self.models = folder / "models"
        self.conf = Conf(dir=str(self.models), **known)  # type: ignore[arg-type]  # a test's shorthand
        self.store = Store(folder / "policies", self.conf)
        self.ear = Ear()
        self.learn(*rows)
        self.store.joined(self.ear.tell)
        self.made.append(self)

    def close(self) -> None:
        """Stop looking."""
        self.store.close()

    def learn(self, *rows: dict[str, object]) -> None:
        """Put another table in force."""
        self.table = table_of(*rows)
        self.store.take_catalogue(CatalogueBody(table(*rows)))

    def ask(self, model: str = "M") -> None:
        """Have a row brought."""
        self.store.fetch(model, self.ear.tell)

    def pull(self, model: str = "M", within_s: float = 60.0) -> Pulled:
        """Have a row brought and return how that ended."""
        before = len(self.ended)
        self.ask(model)
        return self.ear.hear(Pulled, before + 1, within_s)[before]

    @property
    def ended(self) -> list[Pulled]:
        """The pulls that have ended."""
        return [said for said in self.ear.said if isinstance(said, Pulled)]

    @property
    def moves(self) -> list[PullMoved]:
        """What was told of progress."""
        return [said for said in self.ear.said if isinstance(said, PullMoved)]

    @property
    def stock(self) -> dict[str, RowStock]:
        """The rows' states as the broker knows them."""
        self.ear.hear(Stocked)
        known: dict[str, RowStock] = {}
        for said in self.ear.said:
            if isinstance(said, Stocked):
                known |= said.rows
        return known

    def state(self, model: str = "M") -> str:
        """Return a row's state as the broker knows it."""
        return self.stock[model].state

    def file(self, name: str = FILE, repo: str = REPO) -> Path:
        """Return where a file is."""
        return self.models / repo / name


def downloads(hub: FakeHub) -> list[str]:
    """Return the files of which bytes were asked, one entry a request to storage."""
    return [a.path for a in hub.asked if a.method == "GET" and a.status in (200, 206)]


def tokenizer_config(template: str = TEMPLATE) -> bytes:
    """Return the file that holds an NPU container's template."""
    return json.dumps({"chat_template": template}).encode()


def noise(count: int, seed: int = 1) -> bytes:
    """Return bytes that nothing compresses."""
    return random.Random(seed).randbytes(count)
