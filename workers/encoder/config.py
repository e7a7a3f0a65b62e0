"""What a head's file says of the model beside its tensors: lengths, layers and temperatures."""

import json
import stat
from pathlib import Path
from typing import Self

from msgspec import Struct

from policies.shape import is_object
from workers.encoder.calibration import Calibration, calibration_of
from workers.encoder.errors import UnusableModel
from workers.encoder.layout import Limits
from workers.encoder.npz import NpzFile
from workers.encoder.safetensors import SafetensorsFile
from workers.encoder.tensors import CONFIG, CONFIG_MAX_BYTES, TensorFile

BESIDE = "rl_agent_config.json"  # what the model's own repository calls it
_ZIP = b"PK"
_LONGEST = 8192  # tokens a ModernBERT reads
_LAYERS_MAX = 32


class Config(Struct, frozen=True):
    """A decision model's configuration."""

    limits: Limits
    layers: int
    calibration: Calibration

    @classmethod
    def read(cls, file: TensorFile) -> Self:
        """Return the configuration in a head's file, else the one beside it.

        Raises:
            UnusableModel: There is none, or a value of it is out of its range.
        """
        text = file.config
        if text is None:
            text = _beside(file.path)
        try:
            config: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnusableModel(file.path, f"its configuration is not JSON: {error}") from error
        if not is_object(config):
            raise UnusableModel(file.path, "its configuration is no JSON object")
        usual = Limits()
        max_len = _number(file.path, config, "max_len", usual.max_len, range(16, _LONGEST + 1))
        head_max_len = _number(
            file.path, config, "head_max_len", usual.head_max_len, range(8, max_len + 1)
        )
        layers = _number(file.path, config, "head_layers", 2, range(_LAYERS_MAX + 1))
        return cls(Limits(max_len, head_max_len), layers, calibration_of(config))


def open_tensors(path: Path) -> TensorFile:
    """Open a file of tensors; its first bytes say which format it has.

    Raises:
        UnusableModel: It cannot be read, or is of neither format.
    """
    try:
        # A pipe would be waited for, and a device has no end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnusableModel(path, "no regular file")
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
        return NpzFile(path) if start == _ZIP else SafetensorsFile(path)
    except OSError as error:
        raise UnusableModel(path, f"cannot be read: {error.strerror}") from error


def _beside(path: Path) -> str:
    beside = path.with_name(BESIDE)
    try:
        if beside.stat().st_size > CONFIG_MAX_BYTES:
            raise UnusableModel(beside, f"larger than {CONFIG_MAX_BYTES} bytes")
        return beside.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = (
            f"no configuration: neither '{CONFIG}' in its metadata nor a file {BESIDE} beside it. "
            "Lengths and temperatures are the model's; there is no guessing them"
        )
        raise UnusableModel(path, reason) from error


def _number(path: Path, config: dict[str, object], name: str, usual: int, allowed: range) -> int:
    value = config.get(name, usual)
    if type(value) is not int or value not in allowed:
        said = f"{value!r:.40} and must be {allowed.start} to {allowed.stop - 1}"
        raise UnusableModel(path, f"its configuration's {name} is {said}")
    return value
