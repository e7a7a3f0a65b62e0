"""The `fairlane` command: one row a verb, loaded only when it is used."""

import importlib
import io
import sys

import click

# verb -> (module:object, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("ops.commands.up:up", "Start the box and keep it up."),
    "demo": ("ops.commands.up:demo", "Start the box, ask it three prompts, keep serving."),
    "ask": ("ops.commands.ask:ask", "Ask the running box."),
    "pull": ("ops.commands.pull:pull", "Bring rows of the table to this machine."),
    "status": ("ops.commands.status:status", "Show devices, workers and what waits."),
    "queue": (
        "ops.commands.queue:queue",
        "Show who holds each device, who waits, and how long still.",
    ),
    "top": (
        "ops.commands.top:top",
        "Watch the box: who holds, who waits, how hot, what landed where.",
    ),
    "tail": ("ops.commands.tail:tail", "Follow where requests land and how they end."),
    "explain": ("ops.commands.explain:explain", "Tell why a request waited and where it landed."),
    "replay": (
        "ops.commands.replay:replay",
        "Check a journal: does the core still decide as it did?",
    ),
    "drain": ("ops.commands.drain:drain", "Take no new work, and wait until all work is done."),
    "gpu": ("ops.commands.gpu:gpu", "Run a program while a device is held for it."),
    "broker": ("ops.commands.single:broker", "Run only the broker."),
    "gateway": ("ops.commands.single:gateway", "Run only the HTTP front."),
    "worker": ("ops.commands.single:worker", "Run only one worker."),
    "route": ("ops.commands.route:route", "Tell what kind of answer a text needs, or serve that."),
    "sensors": ("ops.commands.sensors:sensors", "Show or record what the sensors tell."),
    "doctor": ("ops.commands.doctor:doctor", "Check what a box needs, and say what to do."),
    "settings": ("ops.commands.settings:settings", "Show the settings in force."),
    "laya-first": ("ops.commands.laya_first:laya_first", "Check, desugar or register a table."),
    "policy": ("ops.commands.policy:policy", "Check a policy, or decide with it, offline."),
    "models": ("ops.commands.models:models", "Show, remove or verify the files of models."),
    "template": ("ops.commands.template:template", "Show or pin the chat templates of a file."),
    "sim": (
        "ops.commands.sim:sim",
        "Run the scheduler on virtual time beside FIFO and round robin.",
    ),
    "bench": ("ops.commands.bench:bench", "Measure this box against bare baselines."),
}


class Lazy(click.Group):
    """A group whose commands are imported when asked for: `--help` costs no zmq."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb's command."""
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        module, _, name = row[0].partition(":")
        command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in COMMANDS.items()])


@click.command(cls=Lazy)
@click.version_option(package_name="fairlane")
@click.option(
    "--config", type=click.Path(), help="Settings file; default: FAIRLANE_CONFIG or the user's."
)
@click.pass_context
def main(ctx: click.Context, config: str | None) -> None:
    """Fairlane: several agent lanes share one iGPU and one NPU to run local language models.

    Exit status: 0 ok, 1 failed, 2 usage, 3 settings or table refused, 4 nobody answers, 5 request refused.
    """
    for stream in (sys.stdout, sys.stderr):  # what a terminal's alphabet lacks is spelled out
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    ctx.obj = config


if __name__ == "__main__":
    main()
