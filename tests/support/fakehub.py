"""A hub of models on this machine, for the real `huggingface_hub` client: files, faults, and a log.

It speaks as much of the protocol as pulling needs: HEAD and GET of `/<repo>/resolve/<revision>/<file>` with
the hub's headers and ranges, large files through a redirect to another host name as the hub's are, the
listing of a repository, and refusals with the hub's error codes. In a test:

    with FakeHub() as hub:
        hub.put("org/repo", "m.gguf", content, Fault(stall=1000))
        ... HF_ENDPOINT=hub.url ...
        assert hub.paths("GET") == [...]

As a process, on files of a directory `<org>/<repo>/<file>`:

    python -m tests.support.fakehub DIRECTORY [--port N] [--log FILE] [--fault org/repo/file:stall=9,times=1]

It prints its address on one line. Standard library only.
"""

import argparse
import gzip
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

_PIECE = 16 * 1024  # bytes sent at once
_TICK_S = 0.02
_SETTLE_S = 2.0  # how long a count waits for the transfers under way to end


@dataclass
class Fault:
    """What goes wrong with one file. Offsets are of the file, so a resumed download meets them again.

    Attributes:
        rate: Bytes a second at most; 0: as fast as it goes.
        stall: Offset at which nothing more is sent while the connection stays open.
        cut: Offset at which the connection is closed.
        status: Status of every answer instead of the file; 401 and 403 carry the code of a gated repository.
        storage: Status of its downloads only, as of a storage that fails behind a hub that is well.
        extra: Bytes that a download is longer than the hub says, negative: shorter.
        corrupt: Offset of a byte that arrives changed.
        no_range: Ranges are ignored: the whole file is sent.
        gzip: It is sent compressed, whatever was asked for.
        after: Seconds that a refusal asks to be left alone for.
        shift: A part begins so many bytes later than was asked for.
        silent_head: HEAD is never answered.
        no_size: HEAD names no length.
        times: How many downloads, or answers with `status`, are faulty, the others are whole; 0: all.
    """

    rate: int = 0
    stall: int | None = None
    cut: int | None = None
    status: int = 0
    storage: int = 0
    extra: int = 0
    corrupt: int | None = None
    no_range: bool = False
    gzip: bool = False
    after: int = 0
    shift: int = 0
    silent_head: bool = False
    no_size: bool = False
    times: int = 0


@dataclass
class Asked:
    """One request as the hub saw it."""

    at: float
    method: str
    path: str
    range: str
    token: str
    agent: str
    status: int = 0
    sent: int = 0


@dataclass
class _File:
    content: bytes
    fault: Fault
    is_large: bool
    met: int = 0  # downloads that were faulty

    @property
    def etag(self) -> str:
        """Large files are named by their sha256, small ones by git's own digest."""
        if self.is_large:
            return hashlib.sha256(self.content).hexdigest()
        head = b"blob %d\0" % len(self.content)
        return hashlib.sha1(head + self.content).hexdigest()  # noqa: S324  # git's, and no secret


@dataclass
class _Repo:
    files: dict[str, _File] = field(default_factory=dict)
    token: str = ""
    version: int = 0

    def commit(self, name: str) -> str:
        """Return the id of what the repository holds now."""
        return hashlib.sha1(f"{name} {self.version}".encode()).hexdigest()  # noqa: S324  # as git


class FakeHub:
    """The server; it listens as soon as it is made."""

    def __init__(self, port: int = 0, log: Path | None = None) -> None:
        """Listen on loopback.

        Args:
            port: 0: a free one.
            log: File to which each request is written as a JSON line when it is over.
        """
        self._repos: dict[str, _Repo] = {}
        self._asked: list[Asked] = []
        self._log = log
        self._lock = threading.Lock()
        self.sending = 0  # files under way
        self.closing = threading.Event()
        hub = self

        class Handler(_Handler):
            def setup(self) -> None:
                self.hub = hub
                super().setup()

        self._server = _Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.storage = f"http://localhost:{self.port}/storage"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_TICK_S,), name="fakehub", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the port and of every connection."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- what there is --------------------------------------------------------------------------------

    def put(
        self,
        repo: str,
        file: str,
        content: bytes,
        fault: Fault | None = None,
        *,
        is_large: bool = True,
    ) -> None:
        """Publish a file, or another content of it: the repository's commit changes."""
        with self._lock:
            held = self._repos.setdefault(repo, _Repo())
            held.version += 1
            held.files[file] = _File(content, fault or Fault(), is_large)

    def fault(self, repo: str, file: str, fault: Fault | None = None) -> None:
        """Change what goes wrong with a file; None: nothing any more."""
        with self._lock:
            one = self._repos[repo].files[file]
            one.fault, one.met = fault or Fault(), 0

    def gate(self, repo: str, token: str) -> None:
        """Open a repository to this token only."""
        with self._lock:
            self._repos.setdefault(repo, _Repo()).token = token

    def serve(self, folder: Path) -> None:
        """Publish a directory of `<org>/<repo>/<file>`."""
        for path in sorted(folder.glob("*/*/**/*")):
            if path.is_file():
                org, name, *rest = path.relative_to(folder).parts
                self.put(f"{org}/{name}", "/".join(rest), path.read_bytes())

    # --- what was asked -------------------------------------------------------------------------------

    @property
    def asked(self) -> list[Asked]:
        """All requests so far, in the order in which they came."""
        with self._lock:
            return list(self._asked)

    def paths(self, method: str = "") -> list[str]:
        """Return what was asked for, downloads from storage under the name of their file."""
        return [one.path for one in self.asked if method in ("", one.method)]

    def sent(self, repo: str = "") -> int:
        """Return the bytes of files sent so far, of all repositories or of one, once none is under way.

        A client that was killed is noticed at the next write only, and what goes into a socket is written
        down after it went: a count taken at once would lack either.
        """
        until_s = time.monotonic() + _SETTLE_S
        while self.sending and time.monotonic() < until_s:
            self.closing.wait(_TICK_S / 10)
        return sum(a.sent for a in self.asked if a.method == "GET" and repo in a.path)

    def note(self, asked: Asked) -> None:
        """Take down a request."""
        with self._lock:
            self._asked.append(asked)

    @contextmanager
    def transfer(self) -> Iterator[None]:
        """Count a file as under way."""
        with self._lock:
            self.sending += 1
        try:
            yield
        finally:
            with self._lock:
                self.sending -= 1

    def over(self, asked: Asked) -> None:
        """Write down a request that is over."""
        if self._log is not None:
            with self._lock, self._log.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(asked)) + "\n")

    def repo(self, name: str) -> _Repo | None:
        """Return a repository."""
        with self._lock:
            return self._repos.get(name)

    def begin(self, file: _File) -> Fault:
        """Return the fault of a download that begins."""
        with self._lock:
            file.met += 1
            return file.fault if not file.fault.times or file.met <= file.fault.times else Fault()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub
    asked: Asked

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing: the log is `FakeHub.asked`."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        headers = self.headers
        path = unquote(urlsplit(self.path).path)
        self.asked = Asked(
            time.time(),
            self.command,
            path.removeprefix("/storage"),
            headers.get("Range", ""),
            headers.get("Authorization", "").removeprefix("Bearer "),
            headers.get("User-Agent", ""),
        )
        self.hub.note(self.asked)
        try:
            self._route(path)
        except OSError:
            self.close_connection = True  # the client left
        finally:
            self.hub.over(self.asked)

    def _route(self, path: str) -> None:
        parts = path.strip("/").split("/")
        stored = parts[0] == "storage"
        if stored:
            parts = parts[1:]
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            self._list("/".join(parts[2:4]))
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]), stored=stored)
        else:
            self._refuse(404, "")

    def _list(self, name: str) -> None:
        repo = self.hub.repo(name)
        if repo is None or not self._may(repo):
            self._refuse(401, "RepoNotFound")
            return
        tree = [
            {"type": "file", "path": path, "size": len(one.content), "oid": one.etag[:40]}
            | ({"lfs": {"oid": one.etag, "size": len(one.content), "pointerSize": 134}}
               if one.is_large else {})
            for path, one in sorted(repo.files.items())
        ]  # fmt: skip
        about = {
            "id": name,
            "sha": repo.commit(name),
            "siblings": [{"rfilename": p} for p in repo.files],
        }
        body = json.dumps(tree if "/tree/" in self.path else about).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _may(self, repo: _Repo) -> bool:
        return repo.token in ("", self.asked.token)

    def _file(self, name: str, revision: str, path: str, *, stored: bool) -> None:
        repo = self.hub.repo(name)
        if repo is None:
            self._refuse(401, "RepoNotFound")
            return
        if not stored and not self._may(repo):
            self._refuse(403 if self.asked.token else 401, "GatedRepo")
            return
        if revision not in ("main", repo.commit(name)):
            self._refuse(404, "RevisionNotFound")
            return
        file = repo.files.get(path)
        if file is None:
            self._refuse(404, "EntryNotFound")
            return
        self._content(name, repo, path, file, stored=stored)

    def _content(self, name: str, repo: _Repo, path: str, file: _File, *, stored: bool) -> None:
        is_head = self.command == "HEAD"
        is_download = not is_head and (stored or not file.is_large)
        fault = self.hub.begin(file) if is_download or file.fault.status else file.fault
        if fault.status:
            self._refuse(
                fault.status, "GatedRepo" if fault.status in (401, 403) else "", fault.after
            )
            return
        if is_download and fault.storage:
            self._refuse(fault.storage, "")
            return
        if is_head and fault.silent_head:
            self.hub.closing.wait()
            return
        headers = {"X-Repo-Commit": repo.commit(name), "ETag": f'"{file.etag}"'}
        if file.is_large and not stored:
            where = f"{self.hub.storage}/{name}/resolve/{repo.commit(name)}/{quote(path)}?signed=1"
            linked = {"X-Linked-ETag": f'"{file.etag}"', "X-Linked-Size": str(len(file.content))}
            if fault.no_size:
                del linked["X-Linked-Size"]
            self._head(302, headers | linked | {"Location": where, "Content-Length": "0"})
        elif is_head:
            length = {} if fault.no_size else {"Content-Length": str(len(file.content))}
            self._head(200, headers | length)
        else:
            self._send(file.content, fault, headers)

    def _send(self, content: bytes, fault: Fault, headers: dict[str, str]) -> None:
        if fault.extra:
            content = content[: fault.extra] if fault.extra < 0 else content + b"x" * fault.extra
        if fault.corrupt is not None:
            at = fault.corrupt
            content = content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]
        if fault.gzip:
            content = gzip.compress(content, 1)
            headers |= {"Content-Encoding": "gzip"}
        start = 0
        asked = self.asked.range.removeprefix("bytes=").partition("-")[0]
        if asked and not fault.no_range:
            start = int(asked) + fault.shift
            if start >= len(content):
                about = {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"}
                self._head(416, about)
                return
            headers |= {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        headers |= {"Content-Length": str(len(content) - start), "Accept-Ranges": "bytes"}
        self._head(206 if start else 200, headers)
        with self.hub.transfer():
            for piece in _pieces(content, start, fault):
                self.wfile.write(piece)
                self.asked.sent += len(piece)
                if fault.rate:
                    self.hub.closing.wait(len(piece) / fault.rate)
        if fault.stall is not None and fault.stall < len(content):
            self.hub.closing.wait()
        if fault.cut is not None and fault.cut < len(content):
            self.close_connection = True

    def _refuse(self, status: int, code: str, after: int = 0) -> None:
        body = json.dumps({"error": code or f"fault {status}"}).encode()
        more = {"X-Error-Code": code, "X-Error-Message": code} if code else {}
        if after:
            more["Retry-After"] = str(after)
        self._head(status, {"Content-Length": str(len(body)), **more})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.asked.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _pieces(content: bytes, start: int, fault: Fault) -> Iterator[bytes]:
    """Yield what is sent of a file; a slow one in pieces of a twentieth of a second."""
    ends = [end for end in (fault.stall, fault.cut) if end is not None]
    end = min([len(content), *ends])
    step = min(_PIECE, max(1, fault.rate // 20)) if fault.rate else _PIECE
    for at in range(start, end, step):
        yield content[at : min(at + step, end)]


def _parse(text: str) -> tuple[str, str, Fault]:
    """Read `org/repo/file:name=value,name=value`."""
    where, _, settings = text.rpartition(":")
    org, name, file = where.split("/", 2)
    given = {key: values[0] for key, values in parse_qs(settings.replace(",", "&")).items()}
    unknown = given.keys() - {one.name for one in fields(Fault)}
    if unknown:
        raise SystemExit(f"no fault is called {', '.join(sorted(unknown))}")
    fault = Fault(**{key: int(value) for key, value in given.items()})  # type: ignore[arg-type]  # 0 and 1 will do for bool
    return f"{org}/{name}", file, fault


def main() -> None:
    """Serve a directory until the process is ended."""
    parser = argparse.ArgumentParser(description="A hub of models, with faults.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args()
    with FakeHub(given.port, given.log) as hub:
        hub.serve(given.directory)
        for text in given.fault:
            repo, file, fault = _parse(text)
            hub.fault(repo, file, fault)
        print(hub.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
