"""Names of repositories and of files in them: which may become a path on this machine.

A table may come from somebody else, and the names in it become directories and files of the models directory.
What could leave that directory, hide in it, meet the store's own files there or mean another file elsewhere
is refused, here for the table and again by the store before it touches anything.
"""

import re

_REPO = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*")
_REPO_MAX = 96  # characters of one half, as on the hub
_PART_MAX = 200  # bytes of one name; the store adds to it, and a file system takes 255
_PATH_MAX = 1024  # bytes of a file's whole name
# Devices on other systems, whatever their ending: a models directory may be shared.
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)


def repo_fault(repo: str) -> str | None:
    """Return what is wrong with the name of a repository; None: nothing."""
    if not _REPO.fullmatch(repo):
        return "must be ORGANISATION/NAME of letters, digits, '-', '_' and '.', neither beginning with '.'"
    for part in repo.split("/"):
        if len(part) > _REPO_MAX:
            return f"has a name of more than {_REPO_MAX} characters"
        if part.endswith(".") or ".." in part or "--" in part:
            return "must hold neither '..' nor '--', and no name may end with '.'"
        if _is_reserved(part):
            return f"holds the reserved name {part!r}"
    return None


def file_fault(name: str) -> str | None:
    """Return what is wrong with the name of a file in its repository or package; None: nothing."""
    if name.startswith("/") or "\\" in name:
        return "must be a relative path inside its source, with '/' between its names"
    if any(ord(sign) < 32 or ord(sign) == 127 or 0xD800 <= ord(sign) < 0xE000 for sign in name):
        return "must be a relative path inside its source, without NUL and other control characters"
    if len(name.encode()) > _PATH_MAX:
        return f"must be a relative path inside its source of at most {_PATH_MAX} bytes"
    for part in name.split("/"):
        fault = _part_fault(part)
        if fault:
            return f"must be a relative path inside its source: {fault}"
    return None


def _part_fault(part: str) -> str | None:
    if part in ("", ".", ".."):
        return f"it holds the name {part!r}"
    if part.startswith("."):
        return f"{part!r} begins with '.', as the store's own files do"
    if part.endswith((".", " ")) or ":" in part:
        return f"{part!r} holds ':' or ends with '.' or a space"
    if len(part.encode()) > _PART_MAX:
        return f"it holds a name of more than {_PART_MAX} bytes"
    return f"{part!r} is a reserved name" if _is_reserved(part) else None


def _is_reserved(part: str) -> bool:
    return part.partition(".")[0].lower() in _RESERVED
