"""What llama.cpp says of an error while it loads: its own reason, which its return value does not have.

llama.cpp has one log a process, so one thread at a time may listen.
"""

import ctypes
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_ERROR = 4  # ggml_log_level
_CONTINUED = 5
_LINES = 4  # the last ones say it


@contextmanager
def listening(library: Any) -> Generator[deque[str]]:
    """Keep the last lines that llama.cpp says of an error instead of having them printed.

    Args:
        library: The module `llama_cpp`, which ships no types.
    """
    from llama_cpp import _logger  # noqa: PLC0415  # 0.25 s and 60 MB, which whoever has `library` has paid

    lines: deque[str] = deque(maxlen=_LINES)
    is_error = False

    def hear(level: int, text: bytes, _data: object) -> None:
        nonlocal is_error
        is_error = level == _ERROR or (level == _CONTINUED and is_error)
        if is_error and text.strip():
            lines.append(text.decode("utf-8", "replace").strip())

    callback = library.llama_log_callback(hear)
    library.llama_log_set(callback, ctypes.c_void_p(0))
    try:
        yield lines
    finally:
        # Back to the library's own, which from now on prints errors only.
        _logger.set_verbose(verbose=False)
        library.llama_log_set(_logger.llama_log_callback, ctypes.c_void_p(0))
