"""A dashboard's JSON as Grafana imports it: ids, places and the many fields that are the same in all."""

from typing import Any

from ops.grafana.panels import WIDTH, Dashboard, Kind, Panel, Query, Row, Variable

SCHEMA_VERSION = 39  # Grafana 10.4 and newer read it
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# value, word and colour of a device's state; the expression in heat.py makes the values
_STATES = (
    ("idle", "text"), ("busy", "green"), ("hot", "orange"), ("quarantined", "purple"),
    ("ending", "yellow"), ("absent", "red"),
)  # fmt: skip


def render(board: Dashboard) -> dict[str, Any]:
    """Return a dashboard as Grafana's JSON model."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.text,
        "tags": ["fairlane"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "id": None,
        "editable": True,
        "graphTooltip": 1,  # one cross hair for all panels
        "refresh": "10s",
        "time": {"from": f"now-{board.span}", "to": "now"},
        "timezone": "browser",
        "links": [_links()],
        "annotations": {"list": [_alerts()]},
        "templating": {"list": [_source_variable(), *map(_variable, board.variables)]},
        "panels": _placed(board.rows),
    }


def _placed(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """Return all panels from left to right and top to bottom, none over another."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        panels.append(_heading(len(panels) + 1, row.title, y))
        x, y, line = 0, y + 1, 0  # line: height of the panels side by side
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, line = 0, y + line, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            panels.append(_panel(len(panels) + 1, panel, place))
            x, line = x + panel.width, max(line, panel.height)
        y += line
    return panels


def _heading(number: int, title: str, y: int) -> dict[str, Any]:
    place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _units(panel)},
        "options": _OPTIONS[panel.kind],
        "targets": [_target(n, query, panel.kind) for n, query in enumerate(panel.queries)],
        "transformations": _columns(panel) if panel.kind == "table" else [],
    }


def _units(panel: Panel) -> list[dict[str, Any]]:
    """Return the units of a table's columns."""
    return [
        {
            "matcher": {"id": "byName", "options": query.legend},
            "properties": [{"id": "unit", "value": query.unit}],
        }
        for query in panel.queries
        if query.unit
    ]


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """Make one line of all answers, with a title for each column and without those that say nothing."""
    alone = len(panel.queries) == 1
    names = {
        "Value" if alone else f"Value #{_letter(number)}": query.legend
        for number, query in enumerate(panel.queries)
    }
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True} | {name: True for name in names if not names[name]},
                "renameByName": {name: title for name, title in names.items() if title},
            },
        },
    ]


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "spanNulls": False,  # what is not known is a gap
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
        defaults["min"] = 0 if panel.bottom is None else panel.bottom
    if panel.top is not None:
        defaults["max"] = panel.top
    if panel.kind == "state-timeline":
        states = {
            str(n): {"text": word, "color": color, "index": n}
            for n, (word, color) in enumerate(_STATES)
        }
        defaults["mappings"] = [{"type": "value", "options": states}]
    return defaults


def _target(number: int, query: Query, kind: Kind) -> dict[str, Any]:
    at_once = kind in {"stat", "table"}
    formats: dict[Kind, str] = {"table": "table", "heatmap": "heatmap"}
    return {
        "refId": _letter(number),
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": formats.get(kind, "time_series"),
        "instant": at_once,
        "range": not at_once,
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": variable.values,
        "query": {"query": variable.values, "refId": variable.name},
        "refresh": 2,  # with the time range: boxes and lanes come and go
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "multi": False,
        "includeAll": False,
        "current": {},
    }


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": _SOURCE,
        "enable": True,
        "expr": 'ALERTS{alertstate="firing",instance=~"$box"}',
        "titleFormat": "{{alertname}}",
        "iconColor": "red",
        "step": "60s",
    }


def _links() -> dict[str, Any]:
    return {
        "title": "Fairlane",
        "type": "dashboards",
        "tags": ["fairlane"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }


_OPTIONS: dict[Kind, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "heatmap": {
        "calculate": False,
        "yAxis": {"unit": "s"},
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "cellGap": 1,
        "tooltip": {"mode": "single"},
    },
    "state-timeline": {
        "mergeValues": True,
        "showValue": "auto",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "tooltip": {"mode": "single"},
    },
}
