"""The engines that are known without settings: how each is started, asked and ended. Data, and its merge.

A site's `engines.NAME` stands above the entry of that name here, field by field; a new name is a new engine.
"""

import shlex
from collections.abc import Mapping

import msgspec

from scheduler.settings import EngineConf

# What a command's placeholders become is in workers/ENGINES.md.
SHIPPED: dict[str, EngineConf] = {
    "1bit": EngineConf(
        command=(
            "1bit serve -m {path} --host 127.0.0.1 --port {port} --device {device} "
            "--alias {model} --ctx-size {ctx_all}"
        ),
        parallel="--parallel {slots}",
        idle="/slots",
        id_slot=True,
        backend="1bit {device}",
        roles={"mtp": "--mtp {file}", "draft": "--dflash {file}", "mmproj": "--mmproj {file}"},
        types={"embedding": "--embedding", "classification": "--reranking"},
    ),
    "llama-server": EngineConf(
        command=(
            "llama-server -m {path} --host 127.0.0.1 --port {port} --alias {model} "
            "-c {ctx_all} -np {slots} -t {threads} --jinja --slots"
        ),
        idle="/slots",
        id_slot=True,
        backend="llama-server",
        roles={
            "mtp": "--spec-type draft-mtp -md {file}",
            "draft": "-md {file}",
            "mmproj": "--mmproj {file}",
        },
        types={"embedding": "--embedding", "classification": "--reranking"},
    ),
    "flm": EngineConf(
        command="flm serve {tag} --host 127.0.0.1 --port {port} --ctx-len {ctx}",
        ready="/v1/models",
        tags="flm list --filter installed --quiet",
        backend="flm npu",
    ),
    "llama-cpp-server": EngineConf(
        command=(
            "{python} -m llama_cpp.server --model {path} --host 127.0.0.1 --port {port} "
            "--model_alias {model} --n_ctx {ctx} --n_threads {threads} --n_threads_batch {threads}"
        ),
        ready="/v1/models",
        idle="cpu",
        backend="llama.cpp cpu",
        nice=10,
        types={"embedding": "--embedding true"},
    ),
    "url": EngineConf(),
}


def engines(site: Mapping[str, EngineConf]) -> dict[str, EngineConf]:
    """Return all engines by name, the site's settings over the shipped ones."""
    merged = dict(SHIPPED)
    for name, own in site.items():
        below = merged.get(name, EngineConf())
        default = EngineConf()
        changes = {
            field: getattr(own, field)
            for field in EngineConf.__struct_fields__
            if getattr(own, field) != getattr(default, field)
        }
        merged[name] = msgspec.structs.replace(below, **changes)
    return merged


def command_of(template: str, values: Mapping[str, str]) -> list[str]:
    """Return program and arguments. Values are filled in after the split, so a path may hold spaces."""
    return [filled(word, values) for word in shlex.split(template)]


def filled(word: str, values: Mapping[str, str]) -> str:
    """Return a word with its placeholders filled in, once."""
    parts = word.split("{")
    text = parts[0]
    for part in parts[1:]:
        name, brace, rest = part.partition("}")
        text += values[name] + rest if brace and name in values else "{" + part
    return text
