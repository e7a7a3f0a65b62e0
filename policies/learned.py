"""Where learned figures say that an on_busy rule makes the asker wait longer than the GPU's queue would.

Rules of this file: pure; figures are handed in as a running box shows them (`costs` of its status). What
is compared is one request of a middling size, and every doubt counts in the rule's favour: all tickets ahead
have their whole time still to run, and the NPU is idle and loaded. Who loses even so, loses.
"""

from collections.abc import Iterable

import msgspec

from policies.row import OnBusy
from policies.table import Table

# A document of 4 KB and an answer of the length that is expected where nobody says.
PROMPT_TOKENS = 1000.0
OUTPUT_TOKENS = 256.0
# One or two tickets may have met a cold cache or a machine that was doing something else.
ENOUGH = 3


class Learned(msgspec.Struct, frozen=True):
    """What is known of one row on one device with so many active seats.

    Attributes:
        row: The row's model.
        device: Instance of its device.
        seats: Requests that ran at once, the measured one among them.
        prefill_tok_s: Prompt tokens a second; `None`: nothing learned.
        decode_tok_s: Answer tokens a second; `None`: nothing learned.
        tickets: Requests that ran to their end, however many at once.
        mean_s: Device-seconds that one of them took.
    """

    row: str
    device: str
    seats: int
    tickets: int
    mean_s: float
    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None


def losses(table: Table, costs: Iterable[Learned]) -> list[str]:
    """Return a sentence for each rule of a table that loses by what is learned, or cannot be judged.

    A rule with `only_if_faster` looks after itself, and one that fires for load from outside alone cannot
    be judged, because nobody knows how much of the GPU such load leaves.
    """
    known = list(costs)
    said: list[str] = []
    for name, entry in table.classes.items():
        rule = entry.on_busy
        if rule is not None and not rule.only_if_faster:
            said += _judge(name, entry.model, rule, known)
    return said


def _judge(name: str, home: str, rule: OnBusy, known: list[Learned]) -> list[str]:
    prompt = min(PROMPT_TOKENS, rule.max_prompt_tokens or PROMPT_TOKENS)
    here, there = _measured(home, known), _measured(rule.model, known)
    unknown = [model for model, one in ((home, here), (rule.model, there)) if one is None]
    if here is None or there is None:
        return [
            f"{name}: too little is learned of {' and '.join(unknown)} to judge its on_busy rule"
        ]
    run_s, npu_s = _seconds(here, prompt), _seconds(there, prompt)
    size = f"{prompt:.0f} prompt and {OUTPUT_TOKENS:.0f} answer tokens"
    said: list[str] = []
    if rule.queue_depth is not None:
        ticket_s = _ticket_s(here.device, known)
        gpu_s = rule.queue_depth * ticket_s + run_s
        if npu_s >= gpu_s:
            even = int((npu_s - run_s) / max(ticket_s, 1e-3)) + 1
            said.append(
                f"{name}: its on_busy rule loses for the asker when the GPU is busy: {size} take "
                f"{npu_s:.1f} s on {rule.model}, and {gpu_s:.1f} s on {home} behind "
                f"{rule.queue_depth} of {ticket_s:.1f} s; it gains from queue_depth {even} on, "
                "and never loses with only_if_faster"
            )
    if rule.tctl_c is not None and npu_s >= run_s:
        said.append(
            f"{name}: its on_busy rule loses for the asker when the GPU is hot and nobody waits: "
            f"{size} take {npu_s:.1f} s on {rule.model}, and {run_s:.1f} s on {home}"
        )
    return said


def _measured(model: str, known: list[Learned]) -> Learned | None:
    """Return the figures of a row by itself, else beside as few others as possible."""
    able = [
        one
        for one in known
        if one.row == model and one.tickets >= ENOUGH and one.prefill_tok_s and one.decode_tok_s
    ]
    return min(able, key=lambda one: (one.seats, one.device), default=None)


def _seconds(one: Learned, prompt: float) -> float:
    return prompt / (one.prefill_tok_s or 1.0) + OUTPUT_TOKENS / (one.decode_tok_s or 1.0)


def _ticket_s(device: str, known: list[Learned]) -> float:
    """Return what a ticket takes of a device, over all rows that ran there, each row once."""
    rows = {one.row: one for one in known if one.device == device}
    tickets = sum(one.tickets for one in rows.values())
    return sum(one.mean_s * one.tickets for one in rows.values()) / tickets
