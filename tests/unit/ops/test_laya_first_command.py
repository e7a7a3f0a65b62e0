"""`fairlane laya-first`, as it is called."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from ops.commands.laya_first import laya_first
from policies import shipped
from policies.desugar import to_text
from policies.table import parse_table

EMBEDDED = shipped.read("embedded.json")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LEMONADE_API_KEY", raising=False)
    return tmp_path


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(laya_first, arguments)
    return result.exit_code, result.stdout.strip()


def test_the_shipped_table_is_checked_with_its_warnings() -> None:
    code, out = call("--check")
    lines = out.split("\n")
    assert code == 0
    assert lines[0] == "shipped: 4 classes, default Qwen3-0.6B-1bit"
    assert [line.partition(": ")[0] for line in lines[1:]] == ["warning"] * 3


def test_strict_checking_refuses_prefixes() -> None:
    code, out = call("--check", "--strict", "--json")
    assert code == 3
    answer = json.loads(out)
    assert answer["ok"] is False
    assert {problem["severity"] for problem in answer["problems"]} == {"error"}


def test_the_users_own_table_comes_before_the_shipped_one(home: Path) -> None:
    own = home / ".local/share/fairlane/laya-first.json"
    own.parent.mkdir(parents=True)
    own.write_text(EMBEDDED, encoding="utf-8")
    assert call("--check") == (0, f"{own}: 4 classes, default SmolLM2-135M-Instruct")


def test_a_bad_table_is_reported_whatever_is_asked(home: Path) -> None:
    bad = home / "bad.json"
    bad.write_text('{"version": "1"}', encoding="utf-8")
    for action in (["--check"], ["--policy", "-"], ["--register", "http://127.0.0.1:1"]):
        code, out = call(*action, str(bad))
        assert code == 3
        assert out.startswith(f"{bad}: invalid\nerror: $.default_model: missing")


def test_a_rule_is_held_against_a_running_box_and_its_absence_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLANE__RUN_DIR", str(home))
    document = json.loads(EMBEDDED)
    rule = {"device": "npu", "model": document["rows"][1]["model"]}
    document["classes"]["long_doc"]["on_busy"] = rule
    table = home / "table.json"
    table.write_text(json.dumps(document), encoding="utf-8")
    code, out = call("--check", "--strict", str(table))
    told = "no box runs here, so no learned figures were held against the on_busy rules"
    assert (code, out.splitlines()[1:]) == (0, [f"note: {told}"])
    assert json.loads(call("--check", "--json", str(table))[1])["advice"] == [told]
    monkeypatch.setenv("FAIRLANE__NO", "1")
    assert "note: no learned figures" in call("--check", str(table))[1]


def test_a_file_that_cannot_be_read_fails(home: Path) -> None:
    assert call("--check", str(home / "absent.json"))[0] == 1


@pytest.mark.parametrize("arguments", [[], ["--check", "--policy", "-"]])
def test_exactly_one_action_is_wanted(arguments: list[str]) -> None:
    assert call(*arguments)[0] == 2


def test_the_policy_is_written_to_the_byte(home: Path) -> None:
    table, out = home / "table.json", home / "policy.json"
    table.write_text(EMBEDDED, encoding="utf-8")
    assert call("--policy", str(out), str(table)) == (0, f"wrote {out}")
    assert out.read_text(encoding="utf-8") == to_text(parse_table(EMBEDDED))
    assert call("--policy", "-", str(table))[1] == to_text(parse_table(EMBEDDED)).strip()
    assert json.loads(call("--policy", str(out), "--json")[1]) == {"written": str(out)}
    assert call("--policy", str(home / "no/such/folder"))[0] == 1


class Lemonade(BaseHTTPRequestHandler):
    """Takes policies of the right name, or refuses everything under /refuse."""

    seen: ClassVar[list[tuple[str, str, object]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        key = self.headers.get("authorization", "")
        self.seen.append((self.path, key, json.loads(body)["model_name"]))
        refused = self.path.startswith("/refuse")
        answer = b'{"error": "unknown classifier type: laya"}' if refused else b"{}"
        self.send_response(400 if refused else 200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Lemonade.seen.clear()
    with HTTPServer(("127.0.0.1", 0), Lemonade) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_registering_twice_is_the_same_as_once(server: str) -> None:
    assert call("--register", server) == (0, "registered user.Laya-First")
    code, out = call("--register", f"{server}/api/v1/", "--api-key", "k", "--json")
    assert (code, json.loads(out)) == (0, {"registered": "user.Laya-First"})
    assert Lemonade.seen == [
        ("/v1/pull", "", "user.Laya-First"),
        ("/api/v1/pull", "Bearer k", "user.Laya-First"),
    ]


def test_a_server_that_refuses_is_quoted(server: str) -> None:
    code, out = call("--register", f"{server}/refuse")
    assert code == 5
    assert "400" in out
    assert "unknown classifier type: laya" in out


def test_no_server_is_another_exit_code_than_a_refusal() -> None:
    code, out = call("--register", "http://127.0.0.1:1", "--json")
    assert code == 4
    assert "127.0.0.1:1" in json.loads(out)["error"]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "localhost:8000", "file:///etc/passwd"])
def test_only_http_addresses_are_used(url: str) -> None:
    assert call("--register", url)[0] == 2
