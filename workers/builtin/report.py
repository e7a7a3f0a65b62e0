"""Scoring the shipped classifier on a labelled file: `python -m workers.builtin.report CASES`.

CASES is JSON `{"cases": [{"class", "text"}, ...]}` or JSON lines of `{"class", "text"}`. Texts of
1,024 UTF-8 bytes or more are long_doc by the size gate and never reach the classifier; the figures
count them as the gate decides.
"""

import sys
from pathlib import Path

import msgspec

from workers.builtin.model import LABELS, Builtin

GATE_BYTES = 1024
LONG_DOC = "long_doc"


class Case(msgspec.Struct):
    """One labelled request."""

    label: str = msgspec.field(name="class")
    text: str


class _Cases(msgspec.Struct):
    cases: list[Case]


class Tally(msgspec.Struct):
    """How often each class was answered how, the gate included."""

    counts: dict[tuple[str, str], int]

    def right(self, *labels: str) -> int:
        """Right answers among cases of `labels`."""
        return sum(self.counts.get((label, label), 0) for label in labels)

    def total(self, *labels: str) -> int:
        """Cases of `labels`."""
        return sum(count for (label, _), count in self.counts.items() if label in labels)


def read_cases(path: Path) -> list[Case]:
    """The cases in a JSON or a JSON-lines file."""
    raw = path.read_bytes()
    if path.suffix == ".jsonl":
        return [msgspec.json.decode(line, type=Case) for line in raw.splitlines() if line]
    return msgspec.json.decode(raw, type=_Cases).cases


def tally(cases: list[Case], classifier: Builtin) -> Tally:
    """Answer every case, by the gate or by the classifier."""
    counts: dict[tuple[str, str], int] = {}
    for case in cases:
        gated = len(case.text.encode("utf-8", "surrogatepass")) >= GATE_BYTES
        answer = LONG_DOC if gated else classifier.classify(case.text).label
        counts[case.label, answer] = counts.get((case.label, answer), 0) + 1
    return Tally(counts)


def main(arguments: list[str]) -> int:
    """Print the confusion matrix and the shares right."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m workers.builtin.report CASES\n")
        return 2
    score = tally(read_cases(Path(arguments[0])), Builtin.load())
    answers = (*LABELS, LONG_DOC)
    lines = ["class     " + "".join(f"{answer:>10}" for answer in answers)]
    for label in answers:
        if score.total(label):
            row = "".join(f"{score.counts.get((label, answer), 0):>10}" for answer in answers)
            lines.append(f"{label:<10}{row}")
    for name, labels in (("classifier alone", LABELS), ("with the size gate", answers)):
        right, total = score.right(*labels), score.total(*labels)
        lines.append(f"{name}: {right} of {total} right ({right / max(total, 1):.1%})")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
