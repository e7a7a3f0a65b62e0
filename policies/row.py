"""What one row of the laya-first table is, and what a class adds to it.

A row is one model with its file, device, context and abilities. The bounds of single fields are
part of their types, so the decoder, the check and the generated schema say the same.
"""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

RequestClass = Literal["short", "prose", "code", "long_doc"]
Device = Literal["hrx", "npu", "cpu"]
Role = Literal["mtp", "draft", "mmproj"]

CLASSES: tuple[RequestClass, ...] = get_args(RequestClass)
# A five times slower answer is worse than waiting for the GPU when somebody watches it arrive.
INTERACTIVE: frozenset[str] = frozenset({"short", "code"})

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


class ExtraFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A second file that an engine loads beside a row's model.

    Attributes:
        file: Path inside the row's source.
        role: What the engine's command line calls it: an MTP head, a draft model, a projector.
        template_sha256: Digest of its own chat template, if the file is served as a model.
    """

    file: Name
    role: Role
    template_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model as it can be served; a model named twice in a table must be identical.

    Attributes:
        model: The name that requests and decisions use.
        device: Kind of device; the instance (`hrx0`) is the scheduler's business.
        ctx: Context window of one slot, in tokens.
        slots: Requests that one load serves at once, or conversations whose prompts it keeps.
        type: What the model is for; only an `llm` answers a class.
        tools: Can be given tools.
        vision: Can be given images.
        json_schema: Can be held to a JSON schema.
        max_tokens: Answer length where the request names none; `None`: the engine's default.
        hf_repo: Hugging Face repository, with `file`.
        file: File inside `hf_repo` or `package`.
        package: Installed Python package that carries `file`.
        path: Absolute path on this machine.
        tag: Name in another local model store.
        url: Base address of a running server on loopback.
        extra_files: Further files of the same source, with their roles.
        template_sha256: SHA-256 of the default chat template, or template name -> SHA-256.
        template_sha256_prefix: The first digits of it where no more is known.
        provenance: Whose artefact the file is.
        engine: Name of the engine that serves it; `None`: the settings decide.
        ttl_s: Idle time after which it may be unloaded, in seconds; `None`: the settings decide.
        pinned: Never evicted.
    """

    model: Name
    device: Device
    ctx: Count
    slots: Count = 1
    type: Literal["llm", "embedding", "classification"] = "llm"
    tools: bool = False
    vision: bool = False
    json_schema: bool = False
    max_tokens: Count | None = None
    hf_repo: Name | None = None
    file: Name | None = None
    package: Name | None = None
    path: Name | None = None
    tag: Name | None = None
    url: Name | None = None
    extra_files: tuple[ExtraFile, ...] = ()
    template_sha256: str | dict[str, str] | None = None
    template_sha256_prefix: str | None = None
    provenance: Literal["ours", "third_party"] = "third_party"
    engine: Name | None = None
    ttl_s: Seconds | None = None
    pinned: bool = False


class OnBusy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a class may start a conversation on the NPU instead of the GPU.

    Attributes:
        device: Where it goes; only `npu`.
        model: The row it uses there.
        queue_depth: Tickets of other lanes that count as busy; `None` turns the test off.
        tctl_c: Temperature that counts as hot, in degrees Celsius; `None` turns the test off.
        wait_s: Time to wait in the GPU's queue first, in seconds.
        busy_ratio: Load from outside the queue that counts as busy, 0 to 1; `None` turns it off.
        tctl_clear_c: Temperature below which hot ends, under `tctl_c`; `None`: 5 below it.
        min_stay_s: Shortest time that hot, once begun, lasts, and that cool lasts after it, in seconds.
        only_if_faster: Only while the NPU is expected to finish first.
        max_prompt_tokens: Longest prompt that may move; `None`: any.
        allow_interactive: Says yes to a slower answer on an interactive class.
    """

    device: Literal["npu"]
    model: Name
    queue_depth: Count | None = 1
    tctl_c: Annotated[float, Meta(gt=0)] | None = None
    wait_s: Seconds = 0.0
    busy_ratio: Annotated[float, Meta(gt=0, le=1)] | None = None
    tctl_clear_c: Annotated[float, Meta(gt=0)] | None = None
    min_stay_s: Seconds = 30.0
    only_if_faster: bool = False
    max_prompt_tokens: Count | None = None
    allow_interactive: bool = False


class ClassRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What answers one class.

    Attributes:
        model: Its row.
        fallback: The row used when the first cannot be pulled or loaded; `None`: the default.
        on_busy: The way to the NPU; `None`: the class always waits for its device.
    """

    model: Name
    fallback: Name | None = None
    on_busy: OnBusy | None = None


class Scorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a class comes from.

    Attributes:
        backend: `builtin` needs no download, `laya-daemon` is a child process that speaks JSON
            lines, `llama-cpp` runs the encoder in the scorer's own process.
        hf_repo: Hugging Face repository of the scorer's weights.
        file: File inside `hf_repo`.
        path: Absolute path of the weights instead.
        device: Device it runs on; helpers use `cpu` unless a table says otherwise.
    """

    backend: Literal["builtin", "laya-daemon", "llama-cpp"] = "builtin"
    hf_repo: Name | None = None
    file: Name | None = None
    path: Name | None = None
    device: Device = "cpu"
