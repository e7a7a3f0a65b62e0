"""`fairlane demo`: three prompts through the box's own HTTP front, each with where it went and why."""

import asyncio
import json
import time
from typing import Any

from msgspec import Struct

from ops.http import get, post

_DOCUMENT = (
    "The river authority met on Tuesday to go through the flood report for the lower valley. "
    "Gauges at the old mill rose by forty centimetres in two hours, which is faster than in any of "
    "the past nine winters, and the pumps at the southern weir stopped twice because reeds had "
    "blocked the intake. Two farms were cut off for a night; nobody was hurt. The engineers think "
    "that the new car park above the village sheds its rain in one go, and that a basin of three "
    "thousand cubic metres would hold back what the ditch cannot take. The council would rather "
    "widen the ditch, which is cheaper and can be done before autumn, but the anglers object, since "
    "trout spawn there. A third plan lets the meadow behind the school flood on purpose. It costs "
    "almost nothing, and the school agrees as long as a fence is built. The treasurer asked for "
    "figures on all three until the end of the month, and the chair closed by thanking the crew who "
    "had cleared the intake by hand at four in the morning. The next meeting is on the third of May, "
    "in the fire station, because the hall is still wet.\n\nSummarise this report in two sentences."
)


class Prompt(Struct, frozen=True):
    """One of the three."""

    title: str
    text: str
    wanted: str  # the class it should get
    max_tokens: int


PROMPTS = (
    Prompt("code", "Write a Python function that returns the n-th Fibonacci number.", "code", 96),
    Prompt("a document of over 1 KB", _DOCUMENT, "long_doc", 64),
    Prompt("a one-liner", "Capital of Italy?", "short", 24),
)


async def show(url: str) -> None:
    """Ask the three prompts and print what came of each."""
    for number, prompt in enumerate(PROMPTS, 1):
        print(
            f"\n--- {number}/3: {prompt.title} ({len(prompt.text.encode()):,} bytes) ---",
            flush=True,
        )
        reply = await asyncio.to_thread(ask, url, prompt)
        print(report(reply), flush=True)
        if reply["class"] != prompt.wanted:
            print(f"expected class {prompt.wanted}, got {reply['class']}", flush=True)
    print(f"\nServing at {url} until Ctrl-C. Try: fairlane ask 'Why is the sky blue?'", flush=True)


def ask(url: str, prompt: Prompt) -> dict[str, Any]:
    """Return what one prompt got: class, model, device, route header, timings and text."""
    began_at = time.monotonic()
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": prompt.text}],
        "max_tokens": prompt.max_tokens,
        "temperature": 0,
    }
    response = post(url, "/v1/chat/completions", body, {"x-fairlane-lane": "demo"})
    reply = json.loads(response.read())
    outputs: dict[str, Any] = reply["x_lemonade_route"]["outputs"]
    return {
        "class": outputs.get("class"),
        "model": reply["model"],
        "device": f"{outputs['device']}, computed by {backend_of(url, reply['model'])}",
        "header": response.headers["x-lemonade-route"],
        "timings": outputs["timings"],
        "usage": reply["usage"],
        "seconds": time.monotonic() - began_at,
        "text": reply["choices"][0]["message"]["content"].strip(),
    }


def backend_of(url: str, model: str) -> str:
    """Return what really computes a model, as `/v1/models` says it."""
    backend = get(url, f"/v1/models/{model}")["backend"]
    return str(backend)


def report(reply: dict[str, Any]) -> str:
    """Return one reply as lines for people."""
    times = ", ".join(f"{k.removesuffix('_ms')} {v:,.1f} ms" for k, v in reply["timings"].items())
    usage = reply["usage"]
    return "\n".join(
        (
            f"class    {reply['class']}",
            f"model    {reply['model']}",
            f"device   {reply['device']}",
            f"route    x-lemonade-route: {reply['header']}",
            f"timings  {times}, all {reply['seconds']:.2f} s",
            f"tokens   {usage['prompt_tokens']} in, {usage['completion_tokens']} out",
            "answer   " + reply["text"].replace("\n", "\n         "),
        )
    )
