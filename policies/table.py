"""The laya-first table: which row answers which class of request.

`parse_table` refuses a faulty table, `check_table` lists every fault, `overlay` lays a site's own
numbers over a good one. This is the one door: callers import rows and tables from here.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from policies.problems import Problem, convert_struct, load_unique, want_object
from policies.row import (
    CLASSES,
    INTERACTIVE,
    ClassRow,
    Device,
    ExtraFile,
    Name,
    OnBusy,
    RequestClass,
    Role,
    Row,
    Scorer,
)
from policies.rowcheck import row_problems
from policies.shape import is_array, is_object

__all__ = [
    "CLASSES",
    "INTERACTIVE",
    "ClassRow",
    "Device",
    "ExtraFile",
    "OnBusy",
    "Problem",
    "RequestClass",
    "Role",
    "Row",
    "Scorer",
    "Table",
    "TableError",
    "check_table",
    "parse_table",
]

_CLASS_KEYS = ("model", "fallback", "on_busy")


class Table(msgspec.Struct, frozen=True):
    """A table that has passed every check; treat its dictionaries as constants.

    Attributes:
        version: Format version.
        default_model: The row that answers when no class does.
        classes: Class name -> what answers it, in the table's order; all four are there.
        rows: Model name -> row: the classes' rows in the table's order, then the second rows.
        scorer: Where a class comes from.
        pull_budget_s: How long a request may wait for a download, in seconds.
        tools: The class of every request that carries tools; `None`: asked like any other.
        weights: Lane name -> share of the devices, from the site overlay; 1 where absent.
    """

    version: str
    default_model: str
    classes: dict[str, ClassRow]
    rows: dict[str, Row]
    scorer: Scorer = Scorer()
    pull_budget_s: float = 600.0
    tools: str | None = None
    weights: dict[str, float] = {}


class TableError(Exception):
    """A table is refused.

    Attributes:
        problems: Every fault that refuses it.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table's own keys; the entries of `classes` and `rows` are read one by one.

    Attributes:
        version: Format version.
        default_model: The row that answers when no class does.
        classes: Class name -> the keys of a row plus `fallback` and `on_busy`, or only the `model`
            of a row that is written out elsewhere in the table.
        rows: Rows that no class spells out, such as NPU forms.
        scorer: Where a class comes from.
        pull_budget_s: How long a request may wait for a download, in seconds.
        tools: The class of every request that carries tools; `None`: asked like any other.
    """

    version: Literal["1"]
    default_model: Name
    classes: dict[str, object]
    rows: list[object] = []
    scorer: Scorer = Scorer()
    pull_budget_s: Annotated[float, Meta(gt=0)] = 600.0
    tools: RequestClass | None = None


def parse_table(text: str) -> Table:
    """Parse a table, accepting what only strict checking refuses.

    Raises:
        TableError: With every fault of the table.
    """
    problems: list[Problem] = []
    table = _read(text, problems)
    errors = [problem for problem in problems if problem.severity == "error"]
    if table is None or errors:
        raise TableError(errors)
    return table


def check_table(text: str, *, strict: bool) -> list[Problem]:
    """Return every fault of a table; none means it is good.

    Args:
        text: The table.
        strict: Turn warnings into errors. Without it they are listed as warnings.
    """
    problems: list[Problem] = []
    _read(text, problems)
    if strict:
        return [msgspec.structs.replace(problem, severity="error") for problem in problems]
    return problems


def _read(text: str, problems: list[Problem]) -> Table | None:
    document = load_unique(text, problems)
    if document is None and problems:
        return None  # no JSON at all, and said so
    return _Reader(problems).read(document)


class _Reader:
    """Reads one table, going on after each fault so that all of them are found."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.rows: dict[str, Row] = {}
        self.classes: dict[str, ClassRow] = {}
        # Named by some row, though that row may be faulty: its references are no further faults.
        self.declared: set[str] = set()

    def report(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))

    def read(self, document: object) -> Table | None:
        raw = want_object(document, "$", self.problems)
        if raw is None:
            return None
        head = convert_struct(raw, Head, "$", self.problems)
        self.read_classes(raw.get("classes"))
        self.read_second_rows(raw.get("rows"))
        self.check_default(raw.get("default_model"))
        for name, entry in self.classes.items():
            self.check_class(name, entry, f"$.classes.{name}")
        self.problems[:] = dict.fromkeys(self.problems)
        if head is None:
            return None
        return Table(
            version=head.version,
            default_model=head.default_model,
            classes=self.classes,
            rows=self.rows,
            scorer=head.scorer,
            pull_budget_s=head.pull_budget_s,
            tools=head.tools,
        )

    def read_classes(self, classes: object) -> None:
        if not is_object(classes):
            return
        for name, entry in classes.items():
            path = f"$.classes.{name}"
            if name not in CLASSES:
                self.report(path, f"unknown class; there are {', '.join(CLASSES)}")
            raw = want_object(entry, path, self.problems)
            if raw is not None:
                self.read_class(name, raw, path)
        for name in CLASSES:
            if name not in classes:
                self.report(f"$.classes.{name}", "missing: every class needs a row")

    def read_class(self, name: str, raw: dict[str, object], path: str) -> None:
        own = {key: value for key, value in raw.items() if key in _CLASS_KEYS}
        row = {key: value for key, value in raw.items() if key not in _CLASS_KEYS}
        if row:
            self.read_row(row | {key: raw[key] for key in ("model",) if key in raw}, path)
        entry = convert_struct(own, ClassRow, path, self.problems)
        if entry is not None:
            self.classes[name] = entry

    def read_second_rows(self, second: object) -> None:
        for index, entry in enumerate(second if is_array(second) else ()):
            raw = want_object(entry, f"$.rows[{index}]", self.problems)
            if raw is not None:
                self.read_row(raw, f"$.rows[{index}]")

    def read_row(self, raw: dict[str, object], path: str) -> None:
        name = raw.get("model")
        if isinstance(name, str):
            self.declared.add(name)
        row = convert_struct(raw, Row, path, self.problems)
        self.problems.extend(row_problems(raw, path))
        if row is None:
            return
        if self.rows.setdefault(row.model, row) != row:
            self.report(path, f"model {row.model!r} is written twice and not the same")

    def check_default(self, model: object) -> None:
        if isinstance(model, str):
            self.check_reference(model, "$.default_model")

    def check_class(self, name: str, entry: ClassRow, path: str) -> None:
        self.check_reference(entry.model, f"{path}.model")
        if entry.fallback is not None:
            self.check_reference(entry.fallback, f"{path}.fallback")
        rule = entry.on_busy
        if rule is None:
            return
        if name in INTERACTIVE and not rule.allow_interactive:
            message = "an interactive class waits for its GPU unless allow_interactive is true"
            self.report(f"{path}.on_busy", message)
        self.check_reference(rule.model, f"{path}.on_busy.model")
        target, home = self.rows.get(rule.model), self.rows.get(entry.model)
        if target is not None and target.device != "npu":
            message = f"{rule.model!r} is no NPU row, it runs on {target.device}"
            self.report(f"{path}.on_busy.model", message)
        if home is not None and home.device != "hrx":
            self.report(f"{path}.on_busy", f"moves off the GPU, and the row runs on {home.device}")
        self.check_heat(rule, f"{path}.on_busy")

    def check_heat(self, rule: OnBusy, path: str) -> None:
        if rule.tctl_clear_c is None:
            return
        if rule.tctl_c is None:
            self.report(
                f"{path}.tctl_clear_c", "says where hot ends, and no tctl_c where it begins"
            )
        elif rule.tctl_clear_c >= rule.tctl_c:
            self.report(f"{path}.tctl_clear_c", f"must be below tctl_c, which is {rule.tctl_c:g}")

    def check_reference(self, model: str, path: str) -> None:
        row = self.rows.get(model)
        if model not in self.declared:
            self.report(path, f"{model!r} is no row of this table")
        elif row is not None and row.type != "llm":
            self.report(path, f"{model!r} is of type {row.type} and cannot answer")
