"""The seam to a file of tensors, whatever its format: only what is asked for is read.

A file comes from elsewhere and may be damaged or hostile: every length in it is compared with the file's
size or with the shape that the head expects before anything is allocated for it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workers.encoder.errors import UnusableModel

Array = NDArray[np.float32]
Shape = tuple[int, ...]

CONFIG = "laya.config"  # where a file keeps the model's configuration, as JSON text
CONFIG_MAX_BYTES = 1 << 20


class TensorFile(Protocol):
    """An open file of named tensors."""

    @property
    def path(self) -> Path:
        """Where it lies."""
        ...

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """Name -> shape, of all tensors."""
        ...

    @property
    def config(self) -> str | None:
        """The model's configuration as JSON text; None if the file carries none."""
        ...

    def read(self, name: str) -> Array:
        """Return a tensor of `shapes`, as float32.

        Raises:
            UnusableModel: It is cut off, or of a type that holds no numbers.
        """
        ...


def tensor(file: TensorFile, name: str, shape: Shape) -> Array:
    """Return one tensor.

    Args:
        file: Where it is.
        name: Its name.
        shape: What it must have.

    Raises:
        UnusableModel: It is missing, has another shape, or holds what is no finite number.
    """
    given = file.shapes.get(name)
    if given is None:
        raise UnusableModel(file.path, f"the tensor '{name}' is missing: this is no decision head")
    if given != shape:
        raise UnusableModel(file.path, f"the tensor '{name}' is {given} and must be {shape}")
    array = file.read(name)
    if not np.isfinite(array).all():
        raise UnusableModel(file.path, f"the tensor '{name}' holds NaN or infinity")
    return array
