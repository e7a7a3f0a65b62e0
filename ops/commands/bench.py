"""`fairlane bench`: what this box costs beside bare baselines."""

import json
import sys

import click
import msgspec

from ops.commands.common import friendly


@click.group()
def bench() -> None:
    """Measure this box against bare baselines in the same run."""


@bench.command()
@click.option("--pairs", default=7, show_default=True, type=click.IntRange(min=1))
@click.option("--requests", default=20_000, show_default=True, type=click.IntRange(min=100))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@friendly
def bus(pairs: int, requests: int, *, as_json: bool) -> None:
    """Compare the real broker with a bare pyzmq relay: null engine, 64 seats, explicit model."""
    from ops.bench.bus import measure

    result = measure(pairs, requests, lambda line: print(line, file=sys.stderr, flush=True))
    if as_json:
        print(json.dumps(msgspec.to_builtins(result), indent=2))
        return
    print(
        f"rate   {result.broker.rate:9,.0f} /s beside {result.relay.rate:9,.0f}: {result.rate_ratio:.2f}"
    )
    print(
        f"p50    {result.broker.p50_us:9.1f} us beside {result.relay.p50_us:8.1f}: {result.p50_ratio:.2f}"
    )
    print(
        f"cpu    {result.broker.cpu_us:9.2f} us beside {result.relay.cpu_us:8.2f}: {result.cpu_ratio:.2f}"
    )


@bench.command()
@click.option("--requests", default=20_000, show_default=True, type=click.IntRange(min=400))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@friendly
def sensors(requests: int, *, as_json: bool) -> None:
    """Compare a box with a sensor file that hangs for ever with one where all of them answer."""
    from ops.bench.sensing import measure

    result = measure(requests)
    if as_json:
        print(json.dumps(msgspec.to_builtins(result), indent=2))
        return
    for name in ("p50", "p99"):
        hung, sound = getattr(result.hung, f"{name}_us"), getattr(result.sound, f"{name}_us")
        ratio = getattr(result, f"{name}_ratio")
        print(f"{name}    {hung:9.1f} us beside {sound:8.1f}: {ratio:.2f}")


@bench.command()
@click.option("--turns", default=20, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--quick", is_flag=True, help="3 turns: half a minute, too little for a word on the p99."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@friendly
def scrape(turns: int, *, quick: bool, as_json: bool) -> None:
    """Compare the bus with somebody who scrapes /metrics each second and without; 3 s a turn and side."""
    from ops.bench.scraping import measure

    result = measure(3 if quick else turns, lambda line: print(line, file=sys.stderr, flush=True))
    if as_json:
        print(json.dumps(msgspec.to_builtins(result), indent=2))
        return
    print(f"{result.series} series of 100 lanes, {result.bytes / 1e3:.0f} kB")
    print(f"scrape {result.idle_scrape_ms:9.2f} ms, worst {result.worst_scrape_ms:.2f}")
    print(f"       {result.scrape_cpu_ms:9.2f} ms of processor time")
    print(f"       {result.scrape_ms:9.2f} ms beside the load")
    for name in ("p50", "p99"):
        scraped, alone = getattr(result.scraped, f"{name}_us"), getattr(result.alone, f"{name}_us")
        ratio = getattr(result, f"{name}_ratio")
        print(f"{name}    {scraped:9.1f} us beside {alone:8.1f}: {ratio:.2f}")
