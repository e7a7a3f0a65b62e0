"""What the store asks of a hub, through `huggingface_hub`.

Addresses, headers, tokens, offline mode and errors are the client's: `HF_ENDPOINT`, `HF_TOKEN`, the token
file and `HF_HUB_OFFLINE` count as they do there. Its own download is not used: it forgets what it has when
its process ends. Files come in ranges over its session instead, so that a pull goes on where it was.

Imported at the first pull, because the client takes its time. Statistics of use are off: they would ask for
more than the files that the table names.
"""

import logging
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from urllib.parse import urlsplit, urlunsplit

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the client is imported

import httpx2
from huggingface_hub import (
    HfApi,
    constants,
    get_hf_file_metadata,  # pyright: ignore[reportUnknownVariableType]  # a bare dict in its signature
    get_session,
    hf_hub_url,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # exported lazily
    build_hf_headers,  # pyright: ignore[reportUnknownVariableType]
    hf_raise_for_status,
)

from workers.store.remote import HubError, Remote

# an address of the storage holds a signature that is good for the file, and they log each address
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)
_HTTP_BYTES_MAX = 50 * 1000**3  # above this the hub sends nothing over plain HTTP


class Hub:
    """The hub that the environment names."""

    def __init__(self, timeout_s: float) -> None:
        """Ask nothing yet.

        Args:
            timeout_s: Longest silence of a connection.
        """
        self._endpoint = constants.ENDPOINT
        parts = urlsplit(self._endpoint)
        # as it may be shown: an address can hold a password
        self.address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._timeout_s = timeout_s

    def look(self, repo: str, file: str, commit: str | None = None) -> Remote:
        """Return what the hub has of a file, now or at a commit.

        Raises:
            HubError: Nothing, or it cannot be asked.
        """
        with self._told(repo, file):
            url = hf_hub_url(repo, file, revision=commit, endpoint=self._endpoint)
            found = get_hf_file_metadata(url, timeout=self._timeout_s, headers=_headers())
        if not found.commit_hash or not found.etag:
            text = "the answer is not a hub's: it names no commit or no etag"
            raise HubError(f"{text}; correct HF_ENDPOINT, or the proxy in between")
        if found.size is not None and found.size > _HTTP_BYTES_MAX:
            raise HubError(
                f"{file} has {found.size / 1e9:.0f} GB, and a hub sends at most 50 GB as one file; "
                "choose a smaller quantisation, or put the file there yourself"
            )
        return Remote(repo, file, found.commit_hash, found.etag, found.size)

    def files(self, repo: str) -> tuple[str, list[str]]:
        """Return the commit and the names of all files of a repository.

        Raises:
            HubError: It cannot be listed.
        """
        with self._told(repo, "its files"):
            about = HfApi(endpoint=self._endpoint, library_name="fairlane").model_info(
                repo, timeout=self._timeout_s
            )
            return about.sha or "", [one.rfilename for one in about.siblings or []]

    @contextmanager
    def read(
        self, remote: Remote, start: int
    ) -> Generator[tuple[int, int | None, Iterator[bytes]], None, None]:
        """Read a file from an offset on: where it really begins, the whole length, and the bytes.

        Raises:
            HubError: It does not come, or ends too early.
        """
        # the commit, so that what comes is what was looked at
        url = hf_hub_url(remote.repo, remote.file, revision=remote.commit, endpoint=self._endpoint)
        headers = {**_headers(), "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        with (
            self._told(remote.repo, remote.file),
            get_session().stream("GET", url, headers=headers, timeout=self._timeout_s) as response,
        ):
            if response.status_code == 416:
                raise HubError(f"the hub has less than the {start} bytes of it that are here")
            hf_raise_for_status(response)
            begins = 0
            if response.status_code == 206:
                begins = _begin_of(response.headers.get("Content-Range", ""))
                if begins != start:
                    raise HubError("another part of it came than was asked for", again=True)
            if response.headers.get("Content-Encoding", "identity") != "identity":
                if begins:
                    raise HubError("a part of it came compressed; correct the proxy in between")
                yield 0, None, response.iter_bytes()
                return
            span = response.headers.get("Content-Range", "").rpartition("/")[2]
            length = span or response.headers.get("Content-Length", "")
            yield begins, int(length) if length.isdecimal() else None, response.iter_raw()

    @contextmanager
    def _told(self, repo: str, file: str) -> Generator[None, None, None]:
        """Turn the client's errors into ours, with what to do about them."""
        try:
            yield
        except OfflineModeIsEnabled as error:
            text = "HF_HUB_OFFLINE is set; unset it, or put the file there yourself"
            raise HubError(text) from error
        except HfHubHTTPError as error:
            raise self._refusal(error, repo, file) from error
        except httpx2.TimeoutException as error:
            text = f"nothing came for {self._timeout_s:g} s; see that the network is up"
            raise HubError(text, again=True) from error
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.TooManyRedirects) as error:
            raise HubError(f"{error}; correct HF_ENDPOINT") from error
        except httpx2.HTTPError as error:
            text = f"the connection failed ({error}); see that the network is up"
            raise HubError(f"{text} and that HF_ENDPOINT is right", again=True) from error

    def _refusal(self, error: HfHubHTTPError, repo: str, file: str) -> HubError:
        status = error.response.status_code
        if isinstance(error, GatedRepoError):
            text = f"it is gated (status {status}): accept its terms at {self.address}/{repo}"
            return HubError(f"{text} and set HF_TOKEN to a token of that account")
        if isinstance(error, RepositoryNotFoundError):
            text = f"there is no such repository (status {status}), or this token may not see it"
            return HubError(f"{text}; correct the row's hf_repo or set HF_TOKEN")
        if isinstance(error, RemoteEntryNotFoundError) or status == 404:
            return HubError(f"it has no file {file} (status 404); correct the row in the table")
        if status in (401, 403):
            return HubError(f"it is refused (status {status}); set HF_TOKEN to a token that may")
        again = status in (408, 429) or status >= 500
        text = f"the hub answered with status {status}; try again later"
        after_s = _seconds(error.response.headers.get("Retry-After", ""))
        return HubError(text, again=again, after_s=after_s)


def _begin_of(span: str) -> int:
    """Return where a `Content-Range` says that what comes begins; -1: it does not say."""
    first = span.removeprefix("bytes ").partition("-")[0].strip()
    return int(first) if first.isdecimal() else -1


def _seconds(text: str) -> float:
    """Return the seconds of a `Retry-After`, a number or a date; 0: neither."""
    if text.strip().isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, at.timestamp() - time.time())


def _headers() -> dict[str, str]:
    headers = build_hf_headers(library_name="fairlane", library_version=version("fairlane"))
    return {name: str(value) for name, value in headers.items()}
