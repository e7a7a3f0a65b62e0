"""Writes the dashboards: `python -m ops.grafana.write`."""

import json
from pathlib import Path

from ops.grafana import fleet, heat, queue
from ops.grafana.panels import Dashboard
from ops.grafana.render import render

FOLDER = Path(__file__).parent / "dashboards"
BOARDS: dict[str, Dashboard] = {"queue": queue.BOARD, "heat": heat.BOARD, "fleet": fleet.BOARD}


def text_of(board: Dashboard) -> str:
    """Return a dashboard's file."""
    return json.dumps(render(board), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, board in BOARDS.items():
        (FOLDER / f"{name}.json").write_text(text_of(board), encoding="utf-8")
