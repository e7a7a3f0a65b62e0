"""Opens the backend that the settings name. The one table of them.

Imports are inside the loaders, so that nobody pays for the libraries of another backend.
"""

from collections.abc import Callable

from scheduler.settings import Scorer
from workers.backend import Backend


def open_backend(conf: Scorer) -> Backend:
    """Load a backend and return it warm: it has answered one question, or will answer none.

    Args:
        conf: The section `scorer` of the settings.

    Raises:
        BackendError: It cannot be loaded; the message says why.
    """
    return _LOADERS[conf.backend](conf)


def _builtin(_conf: Scorer) -> Backend:
    from workers.builtin.model import Builtin  # noqa: PLC0415  # see the module's docstring

    return Builtin.load()


def _laya_daemon(conf: Scorer) -> Backend:
    from workers import daemon  # noqa: PLC0415

    return daemon.load(conf)


def _llama_cpp(conf: Scorer) -> Backend:
    from workers import encoder  # noqa: PLC0415

    return encoder.load(conf)


_LOADERS: dict[str, Callable[[Scorer], Backend]] = {
    "builtin": _builtin,
    "laya-daemon": _laya_daemon,
    "llama-cpp": _llama_cpp,
}
