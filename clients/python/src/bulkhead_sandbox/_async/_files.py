from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from .. import models
from .._archive import pack, unpack
from .._core import WORKSPACE, event_object, file_path, octets
from .._io_async import Content, blocking, chunks, iterable, pieces
from .._results import WatchEvent
from ..errors import NotFoundError, UnavailableError, ValidationError

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox

FilePath = Union[str, "os.PathLike[str]"]

TARBALL = b"application/x-tar"
OCTETS = b"application/octet-stream"


class AsyncFiles:
    """The files of a sandbox. A relative path begins at the workspace."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sb = sandbox

    async def read(self, path: FilePath, *, offset: int | None = None, length: int | None = None) -> bytes:
        """Return the content of a file, or length bytes of it from offset on."""
        sb = await self._sb._opened()
        headers = [*sb._headers, *self._range(offset, length)]
        answer = await sb._t.request("GET", f"{sb._path}/files/{file_path(path)}", headers, again=True, read=sb._t._timeout)
        body = await sb._t.read(answer, None)
        if len(headers) > len(sb._headers) and answer.status != 206:
            raise UnavailableError("the daemon answers with another part of the file than the one that was asked for")
        return body

    def _range(self, offset: int | None, length: int | None) -> list[tuple[bytes, bytes]]:
        if offset is None and length is None:
            return []
        first = offset or 0
        if first < 0 or length is not None and length <= 0:
            raise ValidationError("offset and length are negative, or the length is 0", field="offset")
        last = b"" if length is None else b"%d" % (first + length - 1)
        return [(b"Range", b"bytes=%d-%s" % (first, last))]

    async def read_text(self, path: FilePath, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content of a file as text."""
        return (await self.read(path)).decode(encoding, errors)

    async def read_stream(self, path: FilePath) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file in pieces. One that was cut off is an error."""
        sb = await self._sb._opened()
        stream = sb._t.stream("GET", f"{sb._path}/files/{file_path(path)}", sb._headers)
        try:
            async for piece in stream:
                yield piece
        finally:
            await stream.aclose()

    async def write(
        self, path: FilePath, data: Content, *, exclusive: bool = False, etag: str | None = None, mode: int | None = None,
    ) -> models.WrittenFile:
        """Replace or make a file in one step.

        With ``exclusive`` it must not be there; with ``etag`` it must be there with that content;
        BusyError otherwise. ``mode`` are the permissions of a new file, 0o644 without.
        """
        sb = await self._sb._opened()
        headers = [*sb._headers, (b"Content-Type", OCTETS)]
        if exclusive:
            headers.append((b"If-None-Match", b"*"))
        if etag is not None:
            headers.append((b"If-Match", etag.encode("ascii", "replace")))
        content: Any
        if isinstance(data, (str, bytes, bytearray, memoryview)):
            content = octets(data)
        elif iterable(data):
            content = chunks(data)
        else:
            raise ValidationError(f"{type(data).__name__} is nothing to write", field="data", hint="pass bytes, a str, a file or an iterator of bytes")
        query = {"mode": format(mode & 0o777, "o") if mode is not None else None}
        return await sb._t.call(
            "PUT", f"{sb._path}/files/{file_path(path)}", headers, models.WrittenFile, query=query, content=content, unbounded=True,
        )

    async def list(self, path: FilePath = ".", *, page: int | None = None) -> list[models.File]:
        """Return the entries of a folder, in order of names, of which page are fetched at a time."""
        sb = await self._sb._opened()
        out: list[models.File] = []
        cursor: str | None = None
        while True:
            got = await sb._t.call(
                "GET", f"{sb._path}/files/{file_path(path)}", sb._headers, models.FileList, query={"list": True, "cursor": cursor, "limit": page}, again=True,
            )
            out += got.items
            cursor = got.next
            if not cursor:
                return out

    async def stat(self, path: FilePath, *, follow: bool = False) -> models.File:
        """Return what an entry is; of a link what it leads to where follow is set."""
        sb = await self._sb._opened()
        got = await sb._t.call(
            "GET", f"{sb._path}/files/{file_path(path)}", sb._headers, models.FileList, query={"stat": True, "follow": follow or None}, again=True,
        )
        if len(got.items) != 1:
            raise UnavailableError("the daemon has not sent the one entry")
        return got.items[0]

    async def exists(self, path: FilePath) -> bool:
        """Report whether there is such an entry. A path that may not be looked at is an error."""
        try:
            await self.stat(path)
        except NotFoundError as e:
            if e.field not in (None, "path"):
                raise
            return False
        return True

    async def remove(self, path: FilePath, recursive: bool = False) -> None:
        """Remove a file, a link or a folder, with what is in it where recursive is set."""
        await self._sb._done("DELETE", f"/files/{file_path(path)}", query={"recursive": recursive})

    async def move(self, source: FilePath, target: FilePath, *, overwrite: bool | None = None) -> models.File:
        """Rename a file or folder within one mount."""
        body: dict[str, Any] = {"from": os.fspath(source), "to": os.fspath(target)}
        if overwrite is not None:
            body["overwrite"] = overwrite
        return await self._sb._call("POST", "/files:move", models.File, json=body)

    async def mkdir(self, path: FilePath, parents: bool = False, mode: int | None = None) -> models.File:
        """Make a folder."""
        body: dict[str, Any] = {"path": os.fspath(path), "parents": parents}
        if mode is not None:
            body["mode"] = format(mode & 0o777, "o")
        return await self._sb._call("POST", "/files:mkdir", models.File, json=body)

    async def symlink(self, path: FilePath, target: FilePath) -> models.File:
        """Make a symbolic link at path that leads to target."""
        return await self._sb._call("POST", "/files:symlink", models.File, json={"path": os.fspath(path), "target": os.fspath(target)})

    async def glob(self, pattern: str, path: FilePath | None = None, limit: int | None = None) -> models.GlobResult:
        """Find files by their names; paths are in ``paths``, and ``more`` says that there are more."""
        body: dict[str, Any] = {"pattern": pattern}
        if path is not None:
            body["path"] = os.fspath(path)
        if limit is not None:
            body["limit"] = limit
        return await self._sb._call("POST", "/files:glob", models.GlobResult, json=body)

    async def watch(self, path: FilePath | None = None, recursive: bool = True) -> AsyncGenerator[WatchEvent, None]:
        """Yield what changes in a folder, after a first event "ready". It has no end of its own."""
        sb = await self._sb._opened()
        query = {"path": os.fspath(path) if path is not None else None, "recursive": None if recursive else False}
        events = sb._t.events("GET", f"{sb._path}/watch", sb._headers, query=query)
        try:
            async for e in events:
                if e.name == "change":
                    c = models.Change.model_validate_json(e.data)
                    yield WatchEvent("change", c.kind, c.path, c.name, c.to, details=c)
                elif e.name in ("note", "overflow"):
                    n = models.WatchNote.model_validate_json(e.data)
                    yield WatchEvent(e.name, name=n.name, message=n.message, details=n)
                elif e.name == "ready":
                    event_object(e.data)
                    yield WatchEvent("ready", details=models.WatchReady.model_validate_json(e.data))
        finally:
            await events.aclose()

    async def upload(self, local: FilePath, path: FilePath | None = None) -> models.UnpackedArchive:
        """Copy a file or what is in a folder of this machine into a folder of the sandbox.

        Links arrive as links. What must not arrive is left out, and is in ``left``.
        """
        sb = await self._sb._opened()
        with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
            archive = Path(folder, "archive.tar")
            await blocking(pack, Path(local), archive)
            return await sb._t.call(
                "PUT", f"{sb._path}/archive", [*sb._headers, (b"Content-Type", TARBALL)], models.UnpackedArchive,
                query={"path": os.fspath(path) if path is not None else WORKSPACE}, content=pieces(archive), unbounded=True,
            )

    async def upload_archive(self, tar: Content, path: FilePath | None = None) -> models.UnpackedArchive:
        """Make what a tar archive holds in a folder of the sandbox."""
        sb = await self._sb._opened()
        content: Any = octets(tar) if isinstance(tar, (str, bytes, bytearray, memoryview)) else chunks(tar)
        return await sb._t.call(
            "PUT", f"{sb._path}/archive", [*sb._headers, (b"Content-Type", TARBALL)], models.UnpackedArchive,
            query={"path": os.fspath(path) if path is not None else WORKSPACE}, content=content, unbounded=True,
        )

    async def download(self, path: FilePath, local: FilePath) -> Path:
        """Copy a file, or what is in a folder of the sandbox, into a folder of this machine, which is made.

        Nothing is written outside of that folder, whatever code inside has made of names
        and links: a link that leads out is an error, and so is a device.
        """
        with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
            archive = Path(folder, "archive.tar")
            stream = self.download_archive(path)
            try:
                with archive.open("wb") as f:
                    async for piece in stream:
                        f.write(piece)
            finally:
                await stream.aclose()
            try:
                await blocking(unpack, archive, Path(local))
            except tarfile.TarError as e:
                raise UnavailableError(f"the archive is not unpacked: {e}", resource=os.fspath(path)) from e
        return Path(local)

    async def download_archive(self, path: FilePath) -> AsyncGenerator[bytes, None]:
        """Yield a tar archive of a file, or of what is in a folder, in pieces."""
        sb = await self._sb._opened()
        stream = sb._t.stream("GET", f"{sb._path}/archive", sb._headers, query={"path": os.fspath(path)})
        try:
            async for piece in stream:
                yield piece
        finally:
            await stream.aclose()
