"""`python -m workers.fake_server`: speaks an OpenAI-compatible server's protocol, well or badly.

Its answers are made of a few words and are no model's. It is shipped so that a site can see what its box
does when an engine misbehaves, and so that tests misbehave like a real process.

    GET  /health /v1/health /slots /v1/models
    POST /v1/chat/completions /v1/completions /v1/responses /v1/messages       whole or streamed
         /v1/messages/count_tokens /v1/embeddings /v1/rerank /tokenize

A request with `tools` and no result of one gets a call of the first tool, with values of the types its
schema requires; `reasoning_effort` or `thinking` gets thoughts, `logprobs` gets them,
`stream_options.include_usage` the usage chunk. Prompts stay in slots as in llama-server (`id_slot`,
`cache_prompt`), and usage says what was cached.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from workers.fake_server.plays import PLAYS, Play
from workers.fake_server.server import FakeServer, Nature
from workers.fake_server.wire import say

_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"


def main() -> int:
    """Serve until SIGTERM, or do what is played."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, _end)
    play = Play(options.play, options.after, Path(options.once) if options.once else None)
    nature = Nature(
        model=options.alias or options.model,
        tokens=options.tokens,
        token_s=options.token_ms / 1e3,
        prompt_token_s=options.prompt_token_ms / 1e3,
        slots=options.slots,
        ctx=options.ctx,
        seconds=options.seconds,
        count=options.count,
        key=options.key,
    )
    time.sleep(options.load_s)
    started = play.at_start()
    if started == "exits":
        say(["loading " + options.model, "error: unknown model architecture: 'fake'"])
        return 3
    if started == "port-taken":
        say([f"couldn't bind HTTP server socket, hostname: {options.host}, port: {options.port}"])
        return 1
    try:
        server = FakeServer((options.host, options.port), nature, play)
    except OSError as error:
        say([f"couldn't bind HTTP server socket, port {options.port}: {error.strerror}"])
        return 1
    if started == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if started == "leaves-child":
        subprocess.Popen([sys.executable, "-c", _CHILD])  # noqa: S603  # that is what it plays
    if started == "chatty":
        threading.Thread(target=say, args=([f"talk {n}" for n in range(20_000)],)).start()
    say([f"listening on http://{options.host}:{server.server_address[1]}"])
    server.serve_forever(0.05)
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)  # answers that hang do not hold it up


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workers.fake_server",
        description=__doc__,
        epilog="plays:\n" + "\n".join(f"  {name:15} {text}" for name, text in PLAYS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0, help="0: a free one, said on stderr")
    add("-m", "--model", default="fake", help="what it was told to load; it loads nothing")
    add("--alias", default="", help="the name in its replies; default: --model")
    add("--slots", type=int, default=1, help="answers at a time")
    add("--ctx", type=int, default=4096, help="tokens of a prompt, which are words")
    add("--tokens", type=int, default=9, help="of an answer that no limit makes shorter")
    add("--token-ms", type=float, default=0.0, help="time of a token")
    add(
        "--prompt-token-ms",
        type=float,
        default=0.0,
        help="time of a prompt's token that is not cached",
    )
    add("--load-s", type=float, default=0.0, help="seconds before it listens")
    add("--key", default="", help="the API key it wants")
    add("--count", default="", help="file to which each request is appended, one JSON line each")
    add("--play", choices=list(PLAYS), default="well", help="what goes wrong; see below")
    add("--after", type=int, default=0, help="answer so many requests rightly first")
    add(
        "--once",
        default="",
        help="go wrong in one life only: the file tells the next that it has happened",
    )
    add("--seconds", type=float, default=1.0, help="how long slow-start and ignores-cancel take")
    return parser


if __name__ == "__main__":
    sys.exit(main())
