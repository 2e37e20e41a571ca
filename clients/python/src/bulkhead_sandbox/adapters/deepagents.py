"""A sandbox as the backend of a LangChain deep agent, with the daemon's own file calls.

    agent = create_deep_agent(model, backend=SandboxBackend(sandbox))
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import logging
import posixpath
from collections.abc import Callable, Generator
from contextlib import aclosing, closing
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import (
    ASYNC_GLOB_TIMEOUT,
    ASYNC_GREP_TIMEOUT,
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import MAX_BINARY_BYTES, MAX_OUTPUT_BYTES, TRUNCATION_MSG, BaseSandbox
from deepagents.backends.utils import (
    EMPTY_OLD_STRING_ERROR,
    _get_backend_read_file_type,
    compile_grep_include_glob,
    normalize_read_bounds,
)

from bulkhead_sandbox import AsyncClient, AsyncSandbox, Dropped, Exit, Sandbox, SandboxError, Stderr, Stdout

from ._paths import outside

logger = logging.getLogger(__name__)

T = TypeVar("T")

# An operation yields calls, which are made on the sandbox of either kind, and is sent
# what they return. So each is written once for both.
Steps = Generator[Callable[[Any], Any], Any, T]

_EMPTY = "System reminder: File exists but has empty contents"
_WHOLE = 4 << 20  # a larger file is paged inside
_MATCHES = 10_000  # the most that one search returns


class _Outside(Exception):
    """The path is of the image: only commands reach it."""


class SandboxBackend(BaseSandbox):
    """Runs the commands of an agent in a sandbox, and its file tools on the daemon.

    It takes a :class:`~bulkhead_sandbox.Sandbox`, an
    :class:`~bulkhead_sandbox.AsyncSandbox`, or neither and the options of one, which is
    made then and ends with :meth:`close`. With a ``Sandbox`` the methods for asyncio use
    a connection of their own to it; with an ``AsyncSandbox`` only those are there.

    Paths in the workspace and in the folders for temporary files are read and written
    by the daemon. Other paths are of the image, and commands inside read them.
    """

    def __init__(
        self,
        sandbox: Sandbox | AsyncSandbox | None = None,
        *,
        timeout: int | None = None,
        max_output_bytes: int = 10 << 20,
        **options: Any,
    ) -> None:
        if sandbox is not None and options:
            raise TypeError(f"a sandbox and options of another: {', '.join(options)}")
        self._owned = sandbox is None
        self._sync: Sandbox | None = None
        self._async: AsyncSandbox | None = None
        if isinstance(sandbox, AsyncSandbox):
            self._async = sandbox
        else:
            self._sync = sandbox if sandbox is not None else Sandbox(**options)
        self._timeout = timeout
        self._most = max_output_bytes
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncSandbox] = WeakKeyDictionary()

    @property
    def id(self) -> str:
        return (self._sync or cast(AsyncSandbox, self._async)).name

    @property
    def sandbox(self) -> Sandbox | AsyncSandbox:
        return self._sync or cast(AsyncSandbox, self._async)

    def with_artifacts(self, folder: str = "/workspace/.deepagents") -> CompositeBackend:
        """Return this backend with a folder for what the agent puts aside.

        Long results of tools and old messages are written to ``/large_tool_results`` and
        the like, which is in no sandbox's own files: with this they go below ``folder``.
        """
        return CompositeBackend(default=self, routes={}, artifacts_root=folder)

    def close(self) -> None:
        """Remove the sandbox if this object has made it."""
        if self._owned and self._sync is not None:
            self._sync.close()

    def __enter__(self) -> SandboxBackend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Both kinds -----------------------------------------------------------------

    def _do(self, steps: Steps[T]) -> T:
        if self._sync is None:
            raise RuntimeError("this backend has an AsyncSandbox: use the methods for asyncio, such as aread")
        try:
            call = next(steps)
            while True:
                try:
                    value = call(self._sync)
                except Exception as e:
                    call = steps.throw(e)
                else:
                    call = steps.send(value)
        except StopIteration as end:
            return cast(T, end.value)

    async def _ado(self, steps: Steps[T]) -> T:
        sandbox = await self._on_loop()
        try:
            call = next(steps)
            while True:
                try:
                    value = await call(sandbox)
                except Exception as e:
                    call = steps.throw(e)
                else:
                    call = steps.send(value)
        except StopIteration as end:
            return cast(T, end.value)

    async def _on_loop(self) -> AsyncSandbox:
        if self._async is not None:
            return self._async
        loop = asyncio.get_running_loop()
        sandbox = self._loops.get(loop)
        if sandbox is None:
            sandbox = self._loops[loop] = await _twin(cast(Sandbox, self._sync))
        return sandbox

    # Commands -------------------------------------------------------------------

    def _execute(self, command: str, timeout: int | None) -> Steps[ExecuteResponse]:
        limit = self._timeout if timeout is None else timeout
        output = _Output(self._most)
        try:
            end = yield lambda sb: output.collect(sb, command, limit or None)
        except SandboxError as e:
            return ExecuteResponse(output=f"Error: {e}", exit_code=126 if _refused(e) else None)
        text, more = output.kept.decode("utf-8", "replace"), output.more
        if end.timed_out:
            text += ("" if not text or text.endswith("\n") else "\n") + f"Error: Command timed out after {limit} seconds"
            return ExecuteResponse(output=text, exit_code=124, truncated=more)
        return ExecuteResponse(output=text, exit_code=end.exit_code, truncated=more)

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._do(self._execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return await self._ado(self._execute(command, timeout))

    # Folders --------------------------------------------------------------------

    def _ls(self, path: str) -> Steps[LsResult]:
        try:
            entries = yield lambda sb: sb.files.list(path)
        except SandboxError as e:
            if outside(e):
                raise _Outside from e
            return LsResult(error=f"Path '{path}': {_reason(e, folder=True)}")
        return LsResult(entries=[_info(e) for e in entries])

    def ls(self, path: str) -> LsResult:
        try:
            return self._do(self._ls(path))
        except _Outside:
            return super().ls(path)

    async def als(self, path: str) -> LsResult:
        try:
            return await self._ado(self._ls(path))
        except _Outside:
            return await super().als(path)

    # Reading --------------------------------------------------------------------

    def _read(self, path: str, offset: int, limit: int) -> Steps[ReadResult]:
        try:
            info = yield lambda sb: sb.files.stat(path)
            kind = _get_backend_read_file_type(path)
            if info.type == "file" and kind != "text" and info.size > MAX_BINARY_BYTES:
                return ReadResult(error=f"File '{path}': Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes")
            if info.type == "file" and info.size > _WHOLE:
                raise _Outside  # a page of it is cut inside
            data: bytes = yield lambda sb: sb.files.read(path)
        except SandboxError as e:
            if outside(e):
                raise _Outside from e
            return ReadResult(error=f"File '{path}': {_reason(e)}")
        if not data:
            return ReadResult(file_data=FileData(content=_EMPTY, encoding="utf-8"))
        if kind == "text" and _is_text(data[:8192]):
            try:
                return _page(path, data.decode("utf-8"), offset, limit)
            except UnicodeDecodeError:
                pass
        if len(data) > MAX_BINARY_BYTES:
            return ReadResult(error=f"File '{path}': Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes")
        return ReadResult(file_data=FileData(content=base64.b64encode(data).decode(), encoding="base64"))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        try:
            return self._do(self._read(file_path, offset, limit))
        except _Outside:
            return super().read(file_path, offset, limit)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        try:
            return await self._ado(self._read(file_path, offset, limit))
        except _Outside:
            return await super().aread(file_path, offset, limit)

    # Writing --------------------------------------------------------------------

    def _write(self, path: str, content: str) -> Steps[WriteResult]:
        if path.endswith("/"):
            return WriteResult(error=f"Failed to write file '{path}': is_directory")
        try:
            yield lambda sb: sb.files.write(path, content.encode("utf-8"))
        except SandboxError as e:
            return WriteResult(error=f"Failed to write file '{path}': {_reason(e)}{_hint(e)}")
        except UnicodeEncodeError as e:
            return WriteResult(error=f"Failed to write file '{path}': {e}")
        return WriteResult(path=path)

    def write(self, file_path: str, content: str) -> WriteResult:
        return self._do(self._write(file_path, content))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return await self._ado(self._write(file_path, content))

    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Steps[EditResult]:
        if not old:
            return EditResult(error=EMPTY_OLD_STRING_ERROR)
        try:
            data: bytes = yield lambda sb: sb.files.read(path)
        except SandboxError as e:
            if e.code == "SANDBOX.NOT_FOUND" and e.field == "path":
                return EditResult(error=f"Error: File '{path}' not found")
            return EditResult(error=f"Error editing file '{path}': {_reason(e)}{_hint(e)}")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return EditResult(error=f"Error: File '{path}' is not a text file")
        # What is read has the line ends of Unix, and so has what an agent asks for: the
        # first form that is there says which ends the file has at that place.
        for form in (lambda s: s, lambda s: s.replace("\r\n", "\n").replace("\n", "\r\n"), lambda s: s.replace("\r\n", "\n")):
            here, there = form(old), form(new)
            if count := text.count(here):
                break
        else:
            return EditResult(error=f"Error: String not found in file: '{old}'")
        if count > 1 and not replace_all:
            return EditResult(
                error=f"Error: String '{old}' appears multiple times. Use replace_all=True to replace all occurrences."
            )
        try:
            # The daemon looks again and changes all or nothing.
            yield lambda sb: sb.tools.call("edit", {"path": path, "old": here, "new": there, "all": replace_all})
        except SandboxError as e:
            return EditResult(error=f"Error editing file '{path}': {_reason(e)}{_hint(e)}")
        return EditResult(path=path, occurrences=count)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        return self._do(self._edit(file_path, old_string, new_string, replace_all))

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        return await self._ado(self._edit(file_path, old_string, new_string, replace_all))

    def _delete(self, path: str) -> Steps[DeleteResult]:
        try:
            yield lambda sb: sb.files.remove(path, recursive=True)
        except SandboxError as e:
            if e.code == "SANDBOX.NOT_FOUND" and e.field == "path":
                return DeleteResult(error=f"Error: '{path}' not found")
            return DeleteResult(error=f"Error deleting file '{path}': {_reason(e)}{_hint(e)}")
        return DeleteResult(path=path)

    def delete(self, file_path: str) -> DeleteResult:
        return self._do(self._delete(file_path))

    async def adelete(self, file_path: str) -> DeleteResult:
        return await self._ado(self._delete(file_path))

    # Searching ------------------------------------------------------------------

    def _grep(self, pattern: str, path: str | None, glob: str | None, max_count: int | None) -> Steps[GrepResult]:
        matcher = None
        if glob:
            try:
                matcher = compile_grep_include_glob(glob)
            except ValueError as e:
                return GrepResult(error=str(e))
        if "\n" in pattern:
            return GrepResult(matches=[])  # no line has one
        root = path or "."
        # One more than is wanted says whether there are more. What a glob leaves out is
        # left out here, so that there it counts.
        limit = _MATCHES if max_count is None or matcher is not None else min(max_count + 1, _MATCHES)
        try:
            answer = yield lambda sb: sb.tools.call("grep", {"pattern": pattern, "path": root, "literal": True, "limit": max(limit, 1)})
        except SandboxError as e:
            if outside(e):
                raise _Outside from e
            return GrepResult(error=f"Path '{root}': {_reason(e, folder=True)}")
        data = answer.data or {}
        matches: list[GrepMatch] = []
        base = yield from self._workspace()
        start = posixpath.normpath(posixpath.join(base, root))
        for line in data.get("lines") or []:
            if not line.get("hit", True):
                continue
            full = posixpath.normpath(posixpath.join(base, line["path"]))
            if matcher is not None and not matcher(posixpath.relpath(full, start) if full != start else posixpath.basename(full)):
                continue
            matches.append({"path": full, "line": line["line"], "text": line["text"]})
        more = bool((data.get("page") or {}).get("more"))
        if max_count is not None and len(matches) > max_count:
            matches, more = matches[:max_count], True
        return GrepResult(matches=matches, truncated=more)

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        try:
            return self._do(self._grep(pattern, path, glob, max_count))
        except _Outside:
            return super().grep(pattern, path, glob, max_count=max_count)

    async def agrep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        try:
            return await asyncio.wait_for(self._ado(self._grep(pattern, path, glob, max_count)), ASYNC_GREP_TIMEOUT)
        except _Outside:
            return await super().agrep(pattern, path, glob, max_count=max_count)
        except asyncio.TimeoutError:
            return GrepResult(error=f"Error: grep timed out after {ASYNC_GREP_TIMEOUT}s. Try a more specific pattern or a narrower path.")

    def _glob(self, pattern: str, path: str | None) -> Steps[GlobResult]:
        try:
            matcher = compile_grep_include_glob(pattern)
        except ValueError as e:
            return GlobResult(error=str(e))
        base = yield from self._workspace()
        root = posixpath.normpath(posixpath.join(base, path or base))
        # A name alone is found at any depth. What the daemon lists is what the pattern
        # may mean, and the framework's own matcher says what it means.
        wanted = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
        try:
            found = yield lambda sb: sb.files.glob(wanted, root, _MATCHES)
            if not found.paths and (yield lambda sb: sb.files.stat(root, follow=True)).type != "dir":
                return GlobResult(error=f"Path '{root}': not_a_directory")
            names = [f for f in found.paths if f != root and matcher(posixpath.relpath(f, root))]
            kinds: dict[str, Any] = {}
            for folder in sorted({posixpath.dirname(n) for n in names}):
                for entry in (yield lambda sb, folder=folder: sb.files.list(folder)):
                    kinds[entry.path] = entry
        except SandboxError as e:
            if outside(e):
                raise _Outside from e
            return GlobResult(error=f"Path '{root}': {_reason(e, folder=True)}")
        matches: list[FileInfo] = []
        for name in sorted(names):
            entry = kinds.get(name)
            if entry is not None and entry.type == "symlink":
                entry = yield from self._target(name, entry, root)
            if entry is not None and entry.type == "file":
                matches.append({**_info(entry), "path": name})
        return GlobResult(matches=matches, truncated=found.more, truncation_reason="budget" if found.more else None)

    def _target(self, name: str, entry: Any, root: str) -> Steps[Any]:
        """Return what a link leads to, if that is below the folder that is searched."""
        for _ in range(8):
            to = posixpath.normpath(posixpath.join(posixpath.dirname(name), entry.target or ""))
            if to != root and not to.startswith(root.rstrip("/") + "/"):
                return None
            try:
                entry = yield lambda sb, to=to: sb.files.stat(to)
            except SandboxError:
                return None
            if entry.type != "symlink":
                return entry
            name = to
        return None

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        try:
            return self._do(self._glob(pattern, path))
        except _Outside:
            return super().glob(pattern, path)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        try:
            return await asyncio.wait_for(self._ado(self._glob(pattern, path)), ASYNC_GLOB_TIMEOUT)
        except _Outside:
            return await super().aglob(pattern, path)
        except asyncio.TimeoutError:
            return GlobResult(error=f"Error: glob timed out after {ASYNC_GLOB_TIMEOUT}s. Try a more specific pattern or a narrower path.")

    _base: str | None = None

    def _workspace(self) -> Steps[str]:
        """Return the folder that relative paths begin at."""
        if self._base is None:
            self._base = (yield lambda sb: sb.files.stat(".")).path
        return self._base

    # Many files -----------------------------------------------------------------

    def _upload(self, files: list[tuple[str, bytes]]) -> Steps[list[FileUploadResponse]]:
        answers = []
        for path, data in files:
            if path.endswith("/"):
                answers.append(FileUploadResponse(path=path, error=IS_DIRECTORY))
                continue
            error = None
            try:
                yield lambda sb, path=path, data=data: sb.files.write(path, data)
            except SandboxError as e:
                error = _kind(e, (yield from self._is_folder(path)))
            answers.append(FileUploadResponse(path=path, error=error))
        return answers

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self._do(self._upload(files))

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return await self._ado(self._upload(files))

    def _download(self, paths: list[str]) -> Steps[list[FileDownloadResponse]]:
        answers = []
        for path in paths:
            try:
                data = yield lambda sb, path=path: sb.files.read(path)
            except SandboxError as e:
                answers.append(FileDownloadResponse(path=path, error=_kind(e, (yield from self._is_folder(path)))))
            else:
                answers.append(FileDownloadResponse(path=path, content=data))
        return answers

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._do(self._download(paths))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return await self._ado(self._download(paths))

    def _is_folder(self, path: str) -> Steps[bool]:
        try:
            return (yield lambda sb: sb.files.stat(path)).type == "dir"
        except SandboxError:
            return False


async def _twin(sandbox: Sandbox) -> AsyncSandbox:
    """Return the same sandbox for asyncio, with a connection of its own."""
    client, identity = sandbox.client, sandbox.client._identity
    other = AsyncClient(client.url, token=client._transport._token, tenant=identity.tenant, agent=identity.agent)
    return await AsyncSandbox.connect(sandbox.name, client=other)


class _Output:
    """What a command has written, up to a bound, both streams as they came."""

    def __init__(self, most: int) -> None:
        self.kept, self.more, self._most = bytearray(), False, most
        self._end: Exit | None = None

    def collect(self, sandbox: Any, command: str, timeout: float | None) -> Any:
        return (self._acollect if isinstance(sandbox, AsyncSandbox) else self._collect)(sandbox, command, timeout)

    def _collect(self, sandbox: Sandbox, command: str, timeout: float | None) -> Exit:
        with closing(sandbox.stream(command, timeout=timeout)) as events:
            for event in events:
                self._take(event)
        return self._ended()

    async def _acollect(self, sandbox: AsyncSandbox, command: str, timeout: float | None) -> Exit:
        async with aclosing(sandbox.stream(command, timeout=timeout)) as events:
            async for event in events:
                self._take(event)
        return self._ended()

    def _take(self, event: Any) -> None:
        if isinstance(event, (Stdout, Stderr)):
            room = self._most - len(self.kept)
            self.kept += event.data[:room]
            self.more = self.more or len(event.data) > room
        elif isinstance(event, Dropped):
            self.more = True
        elif isinstance(event, Exit):
            self._end = event

    def _ended(self) -> Exit:
        if self._end is None:
            raise SandboxError("the daemon has not said how the command ended", code="PROVIDER.UNAVAILABLE")
        return self._end


def _info(entry: Any) -> FileInfo:
    info: FileInfo = {"path": entry.path, "is_dir": entry.type == "dir", "size": entry.size}
    if entry.modified_at is not None:
        info["modified_at"] = entry.modified_at.isoformat()
    return info


def _refused(e: SandboxError) -> bool:
    return e.code in ("POLICY.DENY_TOOL", "SANDBOX.CAPABILITY_BLOCKED", "SANDBOX.PERMISSION_DENY")


def _reason(e: SandboxError, *, folder: bool = False) -> str:
    """Return what the framework's own sandboxes say, and otherwise the daemon's words."""
    if e.code == "SANDBOX.NOT_FOUND" and e.field == "path":
        return "path_not_found" if folder else "file_not_found"
    if e.code == "SANDBOX.CAPABILITY_BLOCKED":
        return f"permission_denied: {e}"
    if e.code == "SCHEMA.VALIDATION_FAILED" and e.field == "path":
        return "not_a_directory" if folder else "not_a_file"
    return str(e)


def _hint(e: SandboxError) -> str:
    hint = getattr(e, "hint", None)
    return f" ({hint})" if hint and hint not in str(e) else ""


def _kind(e: SandboxError, folder: bool) -> str:
    if folder:
        return IS_DIRECTORY
    if e.code == "SANDBOX.NOT_FOUND" and e.field == "path":
        return FILE_NOT_FOUND
    if _refused(e):
        return PERMISSION_DENIED
    if e.code == "SCHEMA.VALIDATION_FAILED":
        return INVALID_PATH
    return str(e)


def _is_text(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _page(path: str, text: str, offset: int, limit: int) -> ReadResult:
    """Return the lines that are asked for, as the framework's own sandboxes page."""
    offset, limit = normalize_read_bounds(offset, limit)
    if limit == 0:
        return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if offset >= len(lines):
        return ReadResult(error=f"File '{path}': Line offset {offset} exceeds file length ({len(lines)} lines)")
    shown, size, room = [], 0, MAX_OUTPUT_BYTES - len(TRUNCATION_MSG.encode())
    cut = False
    for line in lines[offset : offset + limit]:
        piece = (line if not shown else "\n" + line).encode()
        if size + len(piece) > room:
            cut = True
            part = piece[: room - size].decode("utf-8", "ignore")
            break
        shown.append(line)
        size += len(piece)
    content = "\n".join(shown) + (part + TRUNCATION_MSG if cut else "")
    # A line that is cut is not counted, and begins the next page; where it is the only
    # one, the next page begins behind it.
    end = offset + max(len(shown), 1)
    return ReadResult(
        file_data=FileData(content=content, encoding="utf-8"),
        total_lines=len(lines),
        start_line=offset + 1,
        end_line=end,
        next_offset=end if end < len(lines) else None,
    )
