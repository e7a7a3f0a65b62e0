"""The llama-cpp scorer: a ModernBERT encoder in llama.cpp and a decision head in numpy.

How it computes and which files fit: ENCODER.md in this folder.
"""

import os
from pathlib import Path

from scheduler.settings import Scorer
from workers.backend import Backend, BackendError

__all__ = ["load"]

_DEVICES = ("auto", "cpu")


def load(conf: Scorer) -> Backend:
    """Load encoder and head, and answer one question with them.

    Args:
        conf: `gguf` is the encoder, `head` the decision head; `device` is auto or cpu, which is the same.

    Raises:
        BackendError: A file cannot be used, the two do not fit each other, or the device is another.
    """
    if conf.device not in _DEVICES:
        raise BackendError(
            f"scorer.device is '{conf.device}': the llama-cpp scorer computes on the processor only"
        )
    threads = max(1, (os.cpu_count() or 2) // 2)  # as the in-process engine: two of them fit
    # OpenBLAS reads it when numpy is first imported; left alone it takes every processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))
    from workers.encoder.loading import load_pair  # noqa: PLC0415  # brings numpy

    return load_pair(Path(conf.gguf).expanduser(), Path(conf.head).expanduser(), threads)
