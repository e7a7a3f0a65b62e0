"""Where a row's file is on this machine."""

from importlib import metadata
from pathlib import Path

from policies.table import Row
from policies.why import Reason, Why
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
        raise unusable(row, Reason.LOAD_FAILED, f"there is no file {path}")
    if row.package is not None:
        return _in_package(row, row.package)
    text = f"{row.hf_repo or row.url or row.tag} is not on disk, and nothing pulls it yet"
    raise unusable(row, Reason.PULL_FAILED, text)


def _in_package(row: Row, package: str) -> Path:
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        text = f"the package {package} is not installed; run `make setup`"
        raise unusable(row, Reason.PULL_FAILED, text) from None
    for file in files:
        if file.name == Path(row.file or "").name:
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise unusable(row, Reason.PULL_FAILED, f"the package {package} holds no file {row.file}")


def unusable(row: Row, cause: Reason | Why, text: str) -> JobError:
    """Return the error of a row that cannot be used; the cause decides what a routed answer says."""
    message = f"Model '{row.model}' cannot be used: {text}."
    return JobError(503, "model_not_usable", message, {"cause": str(cause)})
