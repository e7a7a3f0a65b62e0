"""The JSON documents that ship beside the code.

Reading them is the only input or output of this package.
"""

from importlib import resources


def read(name: str) -> str:
    """Return a shipped document's text, for example `read("laya-first.json")`.

    Args:
        name: File name inside `policies/data`.

    Raises:
        FileNotFoundError: Nothing of that name ships.
    """
    return resources.files("policies").joinpath("data", name).read_text(encoding="utf-8")
