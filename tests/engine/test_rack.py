"""Several real models in one engine: what stays loaded, what leaves, and what does not fit."""

import json
import queue

import pytest

from policies import shipped
from scheduler.wire.catalogue import CatalogueBody
from workers.job import End, Error, Job, Outcome, Unloaded
from workers.llama import LlamaEngine
from workers.pinned import load_pinned

FILE_BYTES = 90_000_000  # the model's file has a little more
BODY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0}


class Engine:
    """An engine that knows the small model under three names, one of them with a hopeless context."""

    def __init__(self) -> None:
        table = json.loads(shipped.read("embedded.json"))
        first = table["rows"][0]
        more = ({"model": "second"}, {"model": "vast", "ctx": 1_000_000_000})
        table["rows"] += [{**first, **change} for change in more]
        self.name: str = first["model"]
        self.engine = LlamaEngine("hrx", 1, load_pinned("", is_strict=True))
        self.engine.take_catalogue(CatalogueBody(json.dumps(table)))
        self.said: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self.gone: queue.SimpleQueue[Unloaded] = queue.SimpleQueue()
        self.leases = 0

    def run(self, model: str, *evict: str) -> End | Error:
        """Run a job to its end."""
        self.leases += 1
        raw = json.dumps({"model": model, **BODY}).encode()
        job = Job(self.leases, "chat", model, False, "c", raw, list(evict))
        self.engine.start(job, self.said.put)
        while True:
            outcome = self.said.get(timeout=120)
            if isinstance(outcome, End | Error):
                return outcome


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def test_a_row_on_disk_has_a_size_before_it_is_loaded_and_a_measured_one_after(
    engine: Engine,
) -> None:
    guessed = engine.engine.sizes()[engine.name]
    end = engine.run(engine.name)
    assert isinstance(end, End)
    assert end.load_s is not None
    measured = engine.engine.sizes()[engine.name]
    assert guessed != measured
    assert min(guessed, measured) > FILE_BYTES


def test_two_rows_stay_loaded_and_the_second_use_of_each_loads_nothing(engine: Engine) -> None:
    engine.run("second")
    assert set(engine.engine.resident()) == {engine.name, "second"}
    for model in (engine.name, "second"):
        end = engine.run(model)
        assert isinstance(end, End)
        assert end.load_s is None


def test_what_a_grant_evicts_leaves_before_the_new_row_is_used(engine: Engine) -> None:
    engine.run("second", engine.name)
    assert engine.engine.resident() == ["second"]


def test_a_row_leaves_when_it_is_told_to_and_that_is_said(engine: Engine) -> None:
    engine.engine.unload("second", engine.gone.put)
    assert engine.gone.get(timeout=30) == Unloaded("second")
    assert engine.engine.resident() == []


def test_a_row_that_free_memory_has_no_room_for_is_refused_before_it_is_loaded(
    engine: Engine,
) -> None:
    end = engine.run("vast")
    assert isinstance(end, Error)
    assert (end.status, end.code, end.facts["cause"]) == (503, "model_not_usable", "load_failed")
    assert "GiB" in end.message
    assert isinstance(engine.run(engine.name), End)
