"""What makes one table row refusable on its own: its source, its digest, its reach.

These checks read the row as written, so that they report beside the type faults of the same row
instead of after them. What needs the rest of the table is in `policies.table`.
"""

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from policies.filenames import file_fault, repo_fault
from policies.problems import Problem
from policies.shape import is_array, is_filled, is_object

SOURCES = ("hf_repo", "package", "path", "tag", "url")

_DIGEST = re.compile(r"[0-9a-f]{64}")
# Eight digits tell files apart; fewer would match by accident in a table of a few hundred files.
_PREFIX = re.compile(r"[0-9a-f]{8,63}")


def row_problems(raw: Mapping[str, object], path: str) -> list[Problem]:
    """Return the faults of a row that its field types cannot express.

    Args:
        raw: The row as builtins; fields of a wrong type are left to the type check.
        path: JSON path of the row.
    """
    return [
        *_source_problems(raw, path),
        *_file_problems(raw, path),
        *_reach_problems(raw, path),
        *_digest_problems(raw, path),
    ]


def _source_problems(raw: Mapping[str, object], path: str) -> list[Problem]:
    named = [name for name in SOURCES if raw.get(name) is not None]
    if len(named) != 1:
        said = " and ".join(named) or "none"
        return [Problem(path, f"needs exactly one source of {', '.join(SOURCES)}; it names {said}")]
    source = named[0]
    has_file = raw.get("file") is not None
    if has_file and source not in {"hf_repo", "package"}:
        return [Problem(f"{path}.file", f"goes with hf_repo or package, not with {source}")]
    # An NPU container is a whole repository; everything else is one file of its source.
    whole_repository = source == "hf_repo" and raw.get("device") == "npu"
    if not has_file and source in {"hf_repo", "package"} and not whole_repository:
        return [Problem(f"{path}.file", f"missing: {source} alone does not say which file")]
    return []


def _file_problems(raw: Mapping[str, object], path: str) -> list[Problem]:
    names = [(f"{path}.file", raw.get("file"))]
    extra = raw.get("extra_files")
    for index, item in enumerate(extra if is_array(extra) else []):
        if is_object(item):
            names.append((f"{path}.extra_files[{index}].file", item.get("file")))
    problems = [
        Problem(where, fault)
        for where, name in names
        if is_filled(name) and (fault := file_fault(name)) is not None
    ]
    repo = raw.get("hf_repo")
    fault = repo_fault(repo) if is_filled(repo) else None
    return problems if fault is None else [Problem(f"{path}.hf_repo", fault), *problems]


def _reach_problems(raw: Mapping[str, object], path: str) -> list[Problem]:
    """Refuse rows that would answer from elsewhere: `auto` never leaves the box."""
    problems: list[Problem] = []
    url = raw.get("url")
    if is_filled(url) and not _is_loopback(url):
        message = "must be an http(s) address on loopback: a table row never leaves the box"
        problems.append(Problem(f"{path}.url", message))
    tag = raw.get("tag")
    if is_filled(tag) and tag.endswith(("-cloud", ":cloud")):
        problems.append(Problem(f"{path}.tag", f"{tag!r} is a cloud model"))
    return problems


def _is_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in {"http", "https"}:
            return False
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _digest_problems(raw: Mapping[str, object], path: str) -> list[Problem]:
    full, prefix = raw.get("template_sha256"), raw.get("template_sha256_prefix")
    problems = _full_problems(full, f"{path}.template_sha256")
    if isinstance(prefix, str):
        problems += _prefix_problems(prefix, f"{path}.template_sha256_prefix")
        if full is not None:
            message = "template_sha256 says it in full; drop the prefix"
            problems.append(Problem(f"{path}.template_sha256_prefix", message))
    elif full is None and raw.get("type", "llm") == "llm":
        problems.append(_missing_digest(raw, f"{path}.template_sha256"))
    return problems


def _full_problems(full: object, path: str) -> list[Problem]:
    """Check the digest of the default template, or one digest a template name."""
    if isinstance(full, str):
        full = {"": full}
    if not is_object(full):
        return []
    if not full:
        return [Problem(path, "names no template")]
    return [
        Problem(f"{path}.{name}" if name else path, "must be 64 lower-case hexadecimal digits")
        for name, digest in full.items()
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest)
    ]


def _prefix_problems(prefix: str, path: str) -> list[Problem]:
    if not _PREFIX.fullmatch(prefix):
        return [Problem(path, "must be 8 to 63 lower-case hexadecimal digits")]
    message = f"{len(prefix) * 4} bits of a digest tell files apart, they are no security check"
    return [Problem(path, message, "warning")]


def _missing_digest(raw: Mapping[str, object], path: str) -> Problem:
    if raw.get("tag") is not None or raw.get("url") is not None:
        message = "missing: the other server applies a template that nothing here can check"
        return Problem(path, message, "warning")
    return Problem(path, "missing: a row that is served names the digest of its chat template")
