"""The store: what it takes in, what it refuses and how, and that nothing it kept is ever lost."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import workers
from support.helping import CODER, ROW, Ear, Shelf, alike, judged, policy, question, row, table
from workers.helper import Service, Shelved
from workers.policy_bounds import BYTES_MAX, PATTERNS_MAX, POLICIES_MAX, SHELF_BYTES_MAX

NAMES = [
    "user.plain", "user.a/b", "user.../../x", "user.a\0b", "user.a\nb", "user. ", "user.日本語",
    "user.\N{GRINNING FACE}", "user." + "n" * 200, 'user."q"', "user.a\\b",
]  # fmt: skip


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("*.json")
    return file


def test_a_registered_policy_is_published_with_its_default_model(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "policies")
    assert shelf.register(policy()) == (
        200,
        {"status": "success", "model_name": "user.Mine", "recipe": "collection.router"},
    )
    assert shelf.published.collections == {"user.Mine": ROW}
    assert shelf.policies == {"user.Mine": policy()}


def test_a_policy_is_published_before_its_client_hears_of_it(tmp_path: Path) -> None:
    ear = Ear()
    Shelf(tmp_path).store.begin(question("register", policy()), ear.tell)
    ear.hear(Service)
    assert [type(reply) for reply in ear.said] == [Shelved, Service]


@pytest.mark.parametrize("make", [judged, alike])
def test_a_policy_that_calls_models_is_told_apart(tmp_path: Path, make: Any) -> None:
    shelf = Shelf(tmp_path)
    shelf.register(policy())
    shelf.register(make())
    assert shelf.published.slow == [make()["model_name"]]


def test_a_policy_registered_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.register(policy())
    shelf.register(policy(default_model=CODER))
    assert shelf.published.collections == {"user.Mine": CODER}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_kept_inside_the_folder_and_across_restarts(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "policies"
    assert Shelf(folder).register(policy(name))[0] == 200
    assert list(tmp_path.iterdir()) == [folder]
    assert Shelf(folder).policies == {name: policy(name)}


def test_keys_of_the_pull_protocol_are_no_part_of_a_policy(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.register({**policy(), "stream": True, "do_not_upgrade": False})
    assert shelf.policies == {"user.Mine": policy()}


def test_the_last_of_two_equal_keys_counts(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    doubled = json.dumps(policy())[:-1] + ', "model_name": "user.Last"}'
    assert shelf.register(doubled.encode())[1]["model_name"] == "user.Last"


# --- refusals -------------------------------------------------------------------------------------

_NAME = (
    "Registered model definitions must use a non-empty `user.*` name, for example "
    "`user.Phi-4-Mini-GGUF`. Received: "
)


@pytest.mark.parametrize("name", ["", "gpt", "user", "user.", "User.X", "builtin.x", " user.x"])
def test_only_names_of_users_are_registered(tmp_path: Path, name: str) -> None:
    assert Shelf(tmp_path).error(policy(name)) == _NAME + name


@pytest.mark.parametrize("name", [None, 5, ["user.x"], {}])
def test_a_name_is_a_text(tmp_path: Path, name: object) -> None:
    assert Shelf(tmp_path).error({**policy(), "model_name": name}) == _NAME


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b"3", b'"user.x"'])
def test_a_body_that_is_no_policy_has_no_name(tmp_path: Path, body: bytes) -> None:
    assert Shelf(tmp_path).error(body) == _NAME


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a":"\xff"}', b"[" * 5000, b"NaN", b"\0"])
def test_a_body_that_is_no_json_is_told_so(tmp_path: Path, body: bytes) -> None:
    assert Shelf(tmp_path).error(body).startswith("Invalid JSON in request body: ")


def test_the_policy_of_the_table_is_not_for_registration(tmp_path: Path) -> None:
    assert "the policy of the table in force" in Shelf(tmp_path).error(policy("user.Laya-First"))


_BAD = {
    "collection is missing required key 'version'": {"model_name": "user.x"},
    "collection contains unknown key 'extra'": {**policy(), "extra": 1},
    "routing.rules must be a non-empty array": policy(rules=[]),
    "unknown classifier type: keyword": policy(classifiers=[{"id": "k", "type": "keyword"}]),
    "regex pattern is prone to catastrophic backtracking": policy(
        rules=[{"id": "r", "match": {"regex": "(a+)+"}, "route_to": ROW}]
    ),
    "has type 'llm', which cannot serve semantic_similarity": alike(ROW),
    "has an unresolvable type": alike("nobody")
    | {"components": [ROW, CODER, "nobody"]},
}  # fmt: skip


@pytest.mark.parametrize("text", _BAD)
def test_a_policy_that_does_not_parse_is_refused_with_the_parsers_text(
    tmp_path: Path, text: str
) -> None:
    error = Shelf(tmp_path).error(_BAD[text])
    assert error.startswith("Invalid collection.router routing policy: ")
    assert text in error


@pytest.mark.parametrize(
    "component", ["nobody", "auto", "user.Other", "user.Mine", "user.Laya-First"]
)
def test_a_component_is_a_row_and_no_collection(tmp_path: Path, component: str) -> None:
    shelf = Shelf(tmp_path)
    shelf.register(policy("user.Other"))
    named = {**policy(), "components": [ROW, CODER, component]}
    assert shelf.error(named) == (
        f"Collection component not registered: '{component}'. "
        "Pull or register it before referencing it in a collection."
    )


def test_a_refused_policy_leaves_the_one_before_in_force(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.register(policy())
    shelf.error({**policy(), "version": "2"})
    assert shelf.policies == Shelf(tmp_path).policies == {"user.Mine": policy()}


def test_a_name_too_long_to_be_asked_for_is_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert shelf.register(policy("user." + "n" * 251))[0] == 200
    assert "256" in shelf.error(policy("user." + "n" * 252))


def test_a_rule_id_too_long_to_be_told_is_refused(tmp_path: Path) -> None:
    rule = {"match": {"max_chars": 9}, "route_to": ROW}
    shelf = Shelf(tmp_path)
    assert shelf.register(policy(rules=[{"id": "r" * 256} | rule]))[0] == 200
    assert "256" in shelf.error(policy(rules=[{"id": "r" * 257} | rule]))


def test_the_name_of_a_row_is_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, table(row("user.row")))
    assert "user.row" in shelf.error(policy("user.row"))


def test_one_policy_more_than_fit_is_refused_and_an_old_one_can_still_change(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path)
    for number in range(POLICIES_MAX):
        assert shelf.register(policy(f"user.P{number}"))[0] == 200
    assert shelf.error(policy("user.More")) == f"{POLICIES_MAX} policies are registered already"
    assert shelf.register(policy("user.P0", default_model=CODER))[0] == 200
    assert len(shelf.published.collections) == POLICIES_MAX


def test_policies_too_large_to_be_sent_together_are_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    large = {"models": ["x" * (BYTES_MAX - 2000)]}
    statuses = [shelf.register(policy(f"user.P{n}") | large)[0] for n in range(12)]
    assert statuses == sorted(statuses)
    assert 200 in statuses
    assert 400 in statuses
    assert sum(map(len, shelf.published.policies.values())) <= SHELF_BYTES_MAX


def test_a_policy_larger_than_one_may_be_is_refused(tmp_path: Path) -> None:
    error = Shelf(tmp_path).error(policy() | {"models": ["x" * BYTES_MAX]})
    assert f"at most {BYTES_MAX} are taken" in error


def test_a_policy_with_too_many_patterns_is_refused(tmp_path: Path) -> None:
    leaves = [{"not": {"regex": f"word{n}"}} for n in range(PATTERNS_MAX + 1)]
    shelf = Shelf(tmp_path)
    many = [{"id": "r", "match": {"any": leaves}, "route_to": ROW}]
    assert f"at most {PATTERNS_MAX} are taken" in shelf.error(policy(rules=many))
    few = [{"id": "r", "match": {"any": leaves[1:]}, "route_to": ROW}]
    assert shelf.register(policy(rules=few))[0] == 200


# --- disks ----------------------------------------------------------------------------------------


def test_policies_are_there_again_after_a_restart(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for made in (policy(), judged(), alike()):
        shelf.register(made)
    assert Shelf(tmp_path).published == shelf.published


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"a":"\xff"}', b"{}", b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}"],
    ids=["empty", "cut", "list", "no utf-8", "no policy", "deep"],
)
def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, content: bytes) -> None:
    Shelf(tmp_path).register(policy())
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    assert Shelf(tmp_path).policies == {"user.Mine": policy()}
    assert bad.read_bytes() == content


def test_a_folder_with_a_files_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "odd.json").mkdir()
    assert Shelf(tmp_path).policies == {}


def test_a_half_written_file_of_a_crash_is_no_policy_and_in_nobodys_way(tmp_path: Path) -> None:
    Shelf(tmp_path).register(policy())
    file_of(tmp_path).with_suffix(".new").write_bytes(b'{"half')
    shelf = Shelf(tmp_path)
    assert shelf.policies == {"user.Mine": policy()}
    assert shelf.register(policy(default_model=CODER))[0] == 200


def test_a_disk_that_takes_nothing_is_told_and_changes_nothing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "policies")
    (tmp_path / "policies").write_text("a file where the folder should be")
    _, reply = shelf.register(policy())
    assert "cannot keep the policy" in reply["error"]
    assert shelf.policies == {}


def test_a_file_that_cannot_be_replaced_leaves_the_old_policy_in_force(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.register(policy())
    file_of(tmp_path).with_suffix(".new").mkdir()  # nobody, root included, can write there
    assert "cannot keep" in shelf.register(policy(default_model=CODER))[1]["error"]
    assert shelf.policies == Shelf(tmp_path).policies == {"user.Mine": policy()}


def test_files_are_for_this_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    Shelf(folder).register(policy())
    assert folder.stat().st_mode & 0o077 == 0


# One process that registers two forms of one policy by turns, until it is killed.
_WRITER = """
import sys
from pathlib import Path
from support.helping import CODER, ROW, Ear, Shelf, policy
shelf = Shelf(Path(sys.argv[1]))
shelf.register(policy())
print("up", flush=True)
while True:
    for model in (CODER, ROW):
        shelf.register(policy(default_model=model))
"""


def test_a_store_killed_at_any_instant_leaves_the_policy_as_it_was_or_as_it_is(
    tmp_path: Path,
) -> None:
    forms = [policy(), policy(default_model=CODER)]
    tree = Path(workers.__file__).parents[1]
    environ = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'tests'}"}
    drawn = random.Random(7)
    for _ in range(6):
        command = [sys.executable, "-c", _WRITER, str(tmp_path)]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            kill_at = time.monotonic() + drawn.random() * 0.02
            while time.monotonic() < kill_at:
                pass
            writer.send_signal(signal.SIGKILL)
        assert Shelf(tmp_path).policies["user.Mine"] in forms
