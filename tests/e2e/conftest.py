"""Boxes for the end-to-end tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import openai
import pytest

from support.box import Box


@pytest.fixture(scope="session")
def box() -> Iterator[Box]:
    """One box for all tests that only ask it something."""
    with Box() as box:
        yield box


@pytest.fixture(scope="session")
def null_box() -> Iterator[Box]:
    """One box whose models answer at once, for tests of everything around them."""
    with Box(workers__engine="null") as box:
        yield box


@pytest.fixture(scope="module")
def rough_box() -> Iterator[Box]:
    """A box of this module's own, for tests that hurt it and wait until it is well again."""
    with Box() as box:
        yield box


@pytest.fixture
def new_box() -> Iterator[Callable[..., Box]]:
    """Start boxes that end with the test."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Box(**settings))


@pytest.fixture
def prepared() -> Iterator[Callable[..., Box]]:
    """Prepare boxes that a test starts itself, or never."""
    with ExitStack() as stack:

        def prepare(**settings: object) -> Box:
            box = Box(**settings)
            stack.callback(box.close)
            return box

        yield prepare


@pytest.fixture
def client(box: Box) -> Iterator[openai.OpenAI]:
    """The `openai` client in front of the shared box."""
    base_url, key = f"{box.url}/v1", "sk-test"
    with openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60) as client:
        yield client
