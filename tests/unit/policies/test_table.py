"""The table: what parses, and that a check names every fault at once."""

import copy
import json

import pytest

from policies import shipped
from policies.problems import Problem, load_unique
from policies.table import TableError, check_table, parse_table

DIGEST = "0123456789abcdef" * 4
ROW = {"model": "M", "path": "/m.gguf", "device": "hrx", "ctx": 4096, "template_sha256": DIGEST}
NPU = ROW | {"model": "N", "device": "npu"}
EMBEDDING = {"model": "E", "path": "/e", "device": "cpu", "ctx": 512, "type": "embedding"}
GOOD = {
    "version": "1",
    "default_model": "M",
    "classes": {
        "short": ROW,
        "prose": {"model": "M"},
        "code": {"model": "M", "fallback": "N"},
        "long_doc": {"model": "M", "on_busy": {"device": "npu", "model": "N"}},
    },
    "rows": [NPU, EMBEDDING],
}


def edited(path: str, value: object) -> str:
    """Return GOOD as text with the value at a dotted path replaced, or removed by `...`."""
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    node: object = document
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node[key]  # type: ignore[index]  # JSON
    if value is ...:
        del node[last]  # type: ignore[attr-defined]  # an object by construction
    else:
        node[last] = value  # type: ignore[index]  # an object by construction
    return json.dumps(document)


def test_a_good_table_has_no_faults_and_its_embedding_row_needs_no_template() -> None:
    assert check_table(json.dumps(GOOD), strict=True) == []


def test_rows_come_from_classes_first_and_references_resolve() -> None:
    table = parse_table(json.dumps(GOOD))
    assert list(table.rows) == ["M", "N", "E"]
    assert [entry.model for entry in table.classes.values()] == ["M"] * 4
    rule = table.classes["long_doc"].on_busy
    assert rule is not None
    assert rule.queue_depth == 1
    assert table.pull_budget_s == 600


@pytest.mark.parametrize(
    ("path", "value", "where", "says"),
    [
        ("version", "2", "$.version", "must be one of 1"),
        ("default_model", "Z", "$.default_model", "'Z' is no row of this table"),
        ("classes.prose", ..., "$.classes.prose", "missing"),
        ("classes.poem", {"model": "M"}, "$.classes.poem", "unknown class"),
        ("classes.prose", 3, "$.classes.prose", "must be an object"),
        ("classes.short.device", "hxr", "$.classes.short.device", "hrx, npu, cpu, not 'hxr'"),
        ("classes.short.ctx", 0, "$.classes.short.ctx", ">= 1"),
        ("classes.short.ctx", True, "$.classes.short.ctx", "got `bool`"),
        ("classes.short.colour", 1, "$.classes.short.colour", "unknown key"),
        ("classes.short.template_sha256", ..., "$.classes.short.template_sha256", "missing"),
        ("classes.short.template_sha256", "ab", "$.classes.short.template_sha256", "64 lower"),
        ("classes.short.template_sha256", {}, "$.classes.short.template_sha256", "no template"),
        (
            "classes.short.template_sha256",
            {"tool_use": "x"},
            "$.classes.short.template_sha256.tool_use",
            "64 lower",
        ),
        (
            "classes.short.template_sha256_prefix",
            "0123456789",
            "$.classes.short.template_sha256_prefix",
            "drop the prefix",
        ),
        ("classes.short.path", ..., "$.classes.short", "it names none"),
        ("classes.short.tag", "t", "$.classes.short", "it names path and tag"),
        ("classes.short.file", "f", "$.classes.short.file", "not with path"),
        ("classes.short.extra_files", 3, "$.classes.short.extra_files", "must be an array"),
        ("classes.short.extra_files", ["f"], "$.classes.short.extra_files[0]", "an object"),
        (
            "classes.short.extra_files",
            [{"file": "../f", "role": "mtp"}],
            "$.classes.short.extra_files[0].file",
            "inside its source",
        ),
        ("classes.code.model", "Q", "$.classes.code.model", "'Q' is no row"),
        ("classes.code.fallback", "Q", "$.classes.code.fallback", "'Q' is no row"),
        (
            "classes.code.on_busy",
            {"device": "npu", "model": "N"},
            "$.classes.code.on_busy",
            "interactive",
        ),
        ("classes.long_doc.on_busy.model", "M", "$.classes.long_doc.on_busy.model", "no NPU row"),
        ("classes.long_doc.on_busy.model", "Q", "$.classes.long_doc.on_busy.model", "no row"),
        ("classes.long_doc.on_busy.device", "cpu", "$.classes.long_doc.on_busy.device", "npu"),
        ("classes.long_doc.model", "N", "$.classes.long_doc.on_busy", "moves off the GPU"),
        (
            "classes.long_doc.on_busy.tctl_clear_c",
            90,
            "$.classes.long_doc.on_busy.tctl_clear_c",
            "no tctl_c",
        ),
        (
            "classes.long_doc.on_busy",
            {"device": "npu", "model": "N", "tctl_c": 90, "tctl_clear_c": 90},
            "$.classes.long_doc.on_busy.tctl_clear_c",
            "below tctl_c, which is 90",
        ),
        ("classes.long_doc.fallback", "E", "$.classes.long_doc.fallback", "cannot answer"),
        ("rows", [NPU, ROW | {"ctx": 1}], "$.rows[1]", "written twice"),
        ("rows", [7], "$.rows[0]", "must be an object"),
        ("rows", 7, "$.rows", "Expected"),
        ("tools", "poem", "$.tools", "short, prose, code, long_doc, not 'poem'"),
        ("pull_budget_s", 0, "$.pull_budget_s", "> 0"),
        ("scorer", {"backend": "magic"}, "$.scorer.backend", "builtin, laya-daemon"),
        ("scorer", 1, "$.scorer", "must be an object"),
    ],
)
def test_a_fault_is_named_with_its_path(path: str, value: object, where: str, says: str) -> None:
    problems = check_table(edited(path, value), strict=False)
    assert [problem.path for problem in problems if says in problem.message] == [where]


def test_all_faults_are_reported_at_once() -> None:
    broken = json.loads(edited("classes.short.device", "gpu"))
    broken["default_model"] = "Z"
    broken["colour"] = 1
    del broken["classes"]["prose"]
    paths = {problem.path for problem in check_table(json.dumps(broken), strict=False)}
    wanted = {"$.classes.short.device", "$.default_model", "$.colour", "$.classes.prose"}
    assert paths == wanted


def test_a_key_given_twice_is_a_fault() -> None:
    text = json.dumps(GOOD).replace('"ctx": 4096', '"ctx": 1, "ctx": 4096', 1)
    assert [p.path for p in check_table(text, strict=False)] == ["$.classes.short.ctx"]


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "[" * 100_000])
def test_what_is_no_table_is_refused_at_the_root(text: str) -> None:
    assert [problem.path for problem in check_table(text, strict=False)] == ["$"]
    with pytest.raises(TableError, match=r"^\$: "):
        parse_table(text)


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ({"url": "https://api.example.com/v1"}, "url"),
        ({"url": "http://192.168.1.2:8000"}, "url"),
        ({"url": "ftp://127.0.0.1"}, "url"),
        ({"url": "http://[::1"}, "url"),
        ({"tag": "big:120b-cloud"}, "tag"),
        ({"hf_repo": "a/b"}, "file"),
        ({"package": "p"}, "file"),
        ({"package": "p", "file": "/etc/passwd"}, "file"),
        ({"package": "p", "file": "a\\b"}, "file"),
        ({"hf_repo": "../b", "file": "m.gguf"}, "hf_repo"),
        ({"hf_repo": "gpt2", "file": "m.gguf"}, "hf_repo"),
        ({"hf_repo": "a/b", "file": "c/../../m.gguf"}, "file"),
        ({"hf_repo": "a/b", "file": "m\0.gguf"}, "file"),
        ({"hf_repo": "a/b", "file": ".m.gguf.json"}, "file"),
    ],
)
def test_a_source_that_is_cloud_or_incomplete_is_refused(
    source: dict[str, str], where: str
) -> None:
    row = {key: value for key, value in ROW.items() if key != "path"} | source
    problems = check_table(edited("classes.short", row), strict=False)
    assert [p.path for p in problems if p.severity == "error"] == [f"$.classes.short.{where}"]


@pytest.mark.parametrize(
    "source",
    [
        {"url": "http://127.0.0.1:8000"},
        {"url": "http://localhost:8000/v1"},
        {"url": "https://[::1]:8000"},
        {"tag": "qwen3:0.6b"},
        {"hf_repo": "a/b", "file": "c/d.gguf"},
        {"package": "p", "file": "m.gguf"},
    ],
)
def test_a_source_on_this_box_passes(source: dict[str, str]) -> None:
    row = {key: value for key, value in ROW.items() if key != "path"} | source
    assert check_table(edited("classes.short", row), strict=True) == []


def test_an_npu_container_is_a_whole_repository() -> None:
    row = {key: value for key, value in NPU.items() if key != "path"} | {"hf_repo": "a/b"}
    assert check_table(edited("rows", [row]), strict=True) == []


def test_a_row_of_another_server_warns_that_its_template_is_unseen() -> None:
    row = {"model": "M", "device": "hrx", "ctx": 1, "tag": "qwen3"}
    problems = check_table(edited("classes.short", row), strict=False)
    assert [problem.severity for problem in problems] == ["warning"]


@pytest.mark.parametrize("prefix", ["0123", "XY23456789", DIGEST])
def test_a_malformed_prefix_is_refused(prefix: str) -> None:
    row = {k: v for k, v in ROW.items() if k != "template_sha256"}
    text = edited("classes.short", row | {"template_sha256_prefix": prefix})
    assert [p.severity for p in check_table(text, strict=False)] == ["error"]


def test_shipped_prefixes_warn_and_strict_checking_refuses_them() -> None:
    text = shipped.read("laya-first.json")
    loose, strict = check_table(text, strict=False), check_table(text, strict=True)
    assert {problem.severity for problem in loose} == {"warning"}
    assert {problem.severity for problem in strict} == {"error"}
    assert [problem.path for problem in loose] == [
        f"$.classes.{name}.template_sha256_prefix" for name in ("short", "code", "long_doc")
    ]
    assert parse_table(text).default_model == "Qwen3-0.6B-1bit"


def test_the_embedded_table_passes_strict_checking() -> None:
    text = shipped.read("embedded.json")
    assert check_table(text, strict=True) == []
    table = parse_table(text)
    assert table.tools == "code"
    assert [row.device for row in table.rows.values()] == ["hrx", "npu"]


def test_a_table_error_lists_all_problems_in_its_text() -> None:
    broken = json.loads(edited("classes.prose", ...))
    broken["colour"] = 1
    with pytest.raises(TableError) as caught:
        parse_table(json.dumps(broken))
    assert str(caught.value).count("; ") == len(caught.value.problems) - 1 == 1


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_document_nested_too_deeply_is_a_fault_and_no_crash(depth: int) -> None:
    problems: list[Problem] = []
    assert load_unique("[" * depth + "]" * depth, problems) is None
    assert [problem.message for problem in problems] == [
        "not JSON that can be read: nested too deeply"
    ]
