"""What a box has learned of its rows, held against the rule of a table."""

import json
from pathlib import Path
from typing import Any

from policies import shipped
from support.box import Box
from support.http import ROW

NPU_ROW = f"{ROW}-npu"


def table(path: Path, npu_row: str) -> str:
    """Write the embedded table with a rule on long_doc, and return where."""
    document: dict[str, Any] = json.loads(shipped.read("embedded.json"))
    document["rows"][1]["model"] = npu_row
    rule = {"device": "npu", "model": npu_row, "queue_depth": 1}
    document["classes"]["long_doc"]["on_busy"] = rule
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_status_and_the_check_of_a_rule_show_what_was_learned(box: Box, tmp_path: Path) -> None:
    for n, row in enumerate([ROW, NPU_ROW] * 3):
        asked = ("ask", f"Number {n}: why?", "--model", row, "--max-tokens", "4")
        assert box.cli(*asked, "--url", box.url).returncode == 0
    costs = {one["row"]: one for one in box.status()["costs"] if one["seats"] == 1}
    for row, device in ((ROW, "hrx0"), (NPU_ROW, "npu0")):
        assert costs[row]["device"] == device
        assert costs[row]["tickets"] >= 3
        assert costs[row]["prefill_tok_s"] > 0
        assert costs[row]["decode_tok_s"] > 0
    shown = box.cli("laya-first", "--check", table(tmp_path / "known.json", NPU_ROW))
    assert (shown.returncode, "too little" in shown.stdout) == (0, False)
    shown = box.cli("laya-first", "--check", table(tmp_path / "new.json", "New"), "--json")
    assert json.loads(shown.stdout)["advice"] == [
        "long_doc: too little is learned of New to judge its on_busy rule"
    ]
