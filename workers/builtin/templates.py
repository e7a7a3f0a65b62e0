r"""Our own training prompts: template lines with slots and alternatives, expanded from a seed.

The lines live in `prompts/<class>.txt`, the slot values in `prompts/slots.txt`. In a line, `{name}`
is a slot, `[[a|b|]]` one of several, `\n` and `\t` a newline and a tab; `@name` starts a register,
the unit cross-validation leaves out. Used in training only; nothing here is imported at run time.
"""

import random
import re
from dataclasses import dataclass
from importlib.resources import files

CLASSES = ("code", "prose", "short")

_SLOT = re.compile(r"\{([a-z_]+)\}")
_CHOICE = re.compile(r"\[\[([^\[\]]*)\]\]")

_GREETINGS = ("Hi! ", "Hello, ", "hey ", "Hi there. ", "Hey, quick one: ", "Good morning! ")
_POLITE = (
    "Please ",
    "please ",
    "Can you ",
    "could you please ",
    "I'd like you to ",
    "I need you to ",
)
_CLOSINGS = (" Thanks!", " Thank you.", " thanks in advance", " please", " Thx", " Cheers.")

# Registers of whole prompts rather than of patterns.
_WRITTEN_OUT = frozenset({"natural", "everyday", "letters", "long"})


@dataclass(frozen=True)
class Prompt:
    """One training prompt: its class, where it is from and the text."""

    label: str
    source: str
    text: str


def expand(*, seed: int, per_template: int) -> list[Prompt]:
    """Every template line, up to `per_template` times with other slot values, some roughened."""
    slots = _read_slots()
    dice = random.Random(seed)  # noqa: S311  # reproducible draws, no secret
    prompts: list[Prompt] = []
    for label in CLASSES:
        for register, line in _read_lines(label):
            plain = {_fill(line, slots, dice) for _ in range(per_template)}
            prompts.extend(
                Prompt(label, f"own:{register}", variant)
                for text in sorted(plain)
                for variant in _variants(text, register, slots, dice)
            )
    return prompts


def _variants(
    text: str, register: str, slots: dict[str, list[str]], dice: random.Random
) -> list[str]:
    """A whole prompt stands as it is, roughened and in talk; of expanded ones some are changed."""
    if register in _WRITTEN_OUT:
        return [text, _roughen(text, dice), _surround(text, slots, dice)]
    fate = dice.random()
    if fate < 0.25:
        return [_roughen(text, dice)]
    return [_surround(text, slots, dice) if fate < 0.55 else text]


def _surround(text: str, slots: dict[str, list[str]], dice: random.Random) -> str:
    """The prompt amid sentences that say nothing of its class, drawn alike for every class."""
    told = dice.randrange(3, 7) if dice.random() < 0.1 else dice.randrange(1, 3)
    before = " ".join(["{ctx}" if told < 3 else "{ramble}"] * told)
    after = "{endctx}" if dice.random() < 0.5 else ""
    if dice.random() < 0.2:
        before, after = "", after or "{ctx}"
    joint = "\n" if dice.random() < 0.25 else " "
    parts = (_fill(before, slots, dice), text, _fill(after, slots, dice))
    talk = joint.join(part for part in parts if part)
    return talk.lower() if dice.random() < 0.15 and "\n" not in talk else talk


def _read_slots() -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {}
    for line in _lines("slots"):
        name, _, choices = line.partition(": ")
        slots[name] = [choice.strip(" ") for choice in choices.split(" | ")]
    return slots


def _read_lines(label: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    register = ""
    for line in _lines(label):
        if line.startswith("@"):
            register = line[1:]
        else:
            found.append((register, line))
    return found


def _lines(name: str) -> list[str]:
    text = (files("workers.builtin") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line and not line.startswith("# ")]


def _fill(line: str, slots: dict[str, list[str]], dice: random.Random) -> str:
    def choose(match: re.Match[str]) -> str:
        return dice.choice(str(match[1]).split("|"))

    def slot(match: re.Match[str]) -> str:
        return dice.choice(slots.get(match[1], [match[0]]))

    text = _CHOICE.sub(choose, line)
    for _ in range(6):  # a slot value may hold slots and alternatives
        text = _CHOICE.sub(choose, _SLOT.sub(slot, text))
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    return re.sub(r"  +(?=\S)(?<!\n)", " ", text) if "\n" not in text else text


def _roughen(text: str, dice: random.Random) -> str:
    """Greeting, politeness, lower case, a lost full stop, a typing slip: what people do."""
    if dice.random() < 0.3 and text[:1].isupper() and "\n" not in text:
        opening = dice.choice(_POLITE)
        text = opening + (text if text[:2].isupper() else text[0].lower() + text[1:])
    elif dice.random() < 0.2:
        text = dice.choice(_GREETINGS) + text
    if dice.random() < 0.4 and "\n" not in text:
        text = text.lower()
    if dice.random() < 0.3:
        text = text.rstrip(".?!")
    if dice.random() < 0.15:
        text += dice.choice(_CLOSINGS)
    if dice.random() < 0.25 and len(text) > 20:
        at = dice.randrange(3, len(text) - 1)
        text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    return text
