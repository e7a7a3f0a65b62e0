"""Where a row's file is on this machine, and whether its chat template is the pinned one."""

import hashlib
from importlib import metadata
from pathlib import Path

from policies.table import Row
from workers.job import JobError


def file_of(row: Row) -> Path:
    """Return the row's model file.

    A `package` row is found through the distribution's own record, without importing the package.

    Raises:
        JobError: The file is not on this machine; says what would bring it.
    """
    if row.path is not None:
        path = Path(row.path).expanduser()
        if path.is_file():
            return path
        raise _unusable(row, f"there is no file {path}")
    if row.package is not None:
        return _in_package(row, row.package)
    raise _unusable(
        row, f"{row.hf_repo or row.url or row.tag} is not on disk and nothing pulls it yet"
    )


def _in_package(row: Row, package: str) -> Path:
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        raise _unusable(row, f"the package {package} is not installed; run `make setup`") from None
    for file in files:
        if file.name == Path(row.file or "").name:
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise _unusable(row, f"the package {package} holds no file {row.file}")


def template_digest(template: str) -> str:
    """Return the sha256 (hex) of a chat template's UTF-8 bytes."""
    return hashlib.sha256(template.encode()).hexdigest()


def check_template(row: Row, template: str | None) -> str:
    """Return the digest of a loaded file's template.

    Raises:
        JobError: It is not the one the row pins.
    """
    digest = template_digest(template) if template is not None else ""
    pinned = row.template_sha256
    wanted = pinned.get("default", "") if isinstance(pinned, dict) else pinned
    if wanted is not None and digest != wanted:
        raise _unusable(
            row, f"its chat template has digest {digest or 'none'}, the row pins {wanted}"
        )
    prefix = row.template_sha256_prefix
    if prefix is not None and not digest.startswith(prefix):
        raise _unusable(
            row, f"its chat template has digest {digest or 'none'}, the row pins {prefix}..."
        )
    return digest


def _unusable(row: Row, why: str) -> JobError:
    return JobError(503, "model_not_usable", f"Model '{row.model}' cannot be used: {why}.")
