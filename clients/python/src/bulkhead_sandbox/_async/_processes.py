from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from .. import models
from .._core import MAX_INPUT, Data, Event, data_fields, event_object, octets, output_bytes, segment
from .._io_async import called, shielded, sleep
from .._results import Again, Dropped, Exit, OutputEvent, Result, Stderr, Stdout
from .._text import Decoder
from ..errors import NotFoundError, SandboxError, UnavailableError

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox

FROM_NOW = -1
TRIES = 5  # times that a stream is taken up again without an event in between


async def followed(
    sb: AsyncSandbox, method: str, below: str, json: Any = None, query: dict[str, Any] | None = None,
) -> AsyncGenerator[OutputEvent | models.Process, None]:
    """Yield the process and its events, over as many connections as it takes.

    What a broken connection has delivered does not come again, and nothing is left out:
    each connection goes on behind the last event of the one before.
    """
    last, tries = "", 0
    headers = sb._headers
    while True:
        events = sb._t.events(method, sb._path + below, headers, query=query, json=json)
        try:
            async for e in events:
                if e.id and e.id != last:
                    last, tries = e.id, 0
                if e.name == "process":
                    yield models.Process.model_validate_json(e.data)
                    continue
                made = output_event(e)
                if made is not None:
                    yield made
                    if isinstance(made, Exit):
                        return
        except UnavailableError as e:
            if not last or tries >= TRIES or e.status:
                raise
        finally:
            await events.aclose()
        tries += 1
        method, below, json, query = "GET", f"/processes/{segment(last.partition('.')[0])}/stream", None, None
        headers = [*sb._headers, (b"Last-Event-ID", last.encode("ascii", "replace"))]
        await sleep(0.1 * tries)


def output_event(e: Event) -> OutputEvent | None:
    if e.name == "stdout":
        return Stdout(output_bytes(e.data))
    if e.name == "stderr":
        return Stderr(output_bytes(e.data))
    if e.name == "exit":
        return Exit(models.Exit.model_validate_json(e.data))
    if e.name == "dropped":
        return Dropped(int(event_object(e.data).get("bytes", 0)))
    if e.name == "again":
        return Again()
    return None


class AsyncCommandStream:
    """The events of a command, in the order in which the daemon sends them.

    It is an iterator, and a context manager. It begins with ``open``, with ``async with``, or with the first event. A command of ``stream`` that is left before
    its end is ended: at once by ``aclose`` and by the end of ``async with``, and else 30 seconds later.
    """

    def __init__(self, sb: AsyncSandbox, events: AsyncGenerator[OutputEvent | models.Process, None], kill: bool) -> None:
        self._sb = sb
        self._kill = kill
        self._events = events
        self._process: models.Process | None = None
        self._first: OutputEvent | None = None
        self._over = False

    @property
    def process(self) -> models.Process | None:
        """The process, once the stream has begun."""
        return self._process

    async def open(self) -> AsyncCommandStream:
        """Begin, and return when the command runs."""
        if self._process is None and self._first is None and not self._over:
            try:
                self._first = await self._next(True)
            except StopAsyncIteration:
                pass
        return self

    async def _next(self, first: bool) -> OutputEvent | None:
        """Return the next event, or None after the process where that is what first comes."""
        try:
            while True:
                e = await self._events.__anext__()
                if isinstance(e, models.Process):
                    self._process = e
                    if first:
                        return None
                    continue
                if isinstance(e, Exit):
                    self._over = True
                return e
        except (StopAsyncIteration, SandboxError):
            self._over = True
            raise

    def __aiter__(self) -> AsyncCommandStream:
        return self

    async def __anext__(self) -> OutputEvent:
        if self._first is not None:
            e, self._first = self._first, None
            return e
        e = await self._next(False)
        assert e is not None
        return e

    async def __aenter__(self) -> AsyncCommandStream:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release the connection, and end the command unless it goes on in the background."""
        await self._events.aclose()
        p = self.process
        if self._kill and not self._over and p is not None:
            self._over = True
            with shielded(10):
                try:
                    await self._sb._call("DELETE", f"/processes/{segment(p.id)}", models.Process)
                except NotFoundError:
                    pass


class AsyncProcess:
    """A command that goes on without its client."""

    def __init__(self, sb: AsyncSandbox, info: models.Process) -> None:
        self._sb = sb
        self._info = info
        self._below = f"/processes/{segment(info.id)}"

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def pid(self) -> int | None:
        """Its number inside, where that is known."""
        return self._info.pid

    @property
    def tag(self) -> str | None:
        return self._info.tag

    async def info(self) -> models.Process:
        """Return what the daemon knows of it now."""
        self._info = await self._sb._call("GET", self._below, models.Process, again=True)
        return self._info

    def stream(self, from_: int = 0) -> AsyncCommandStream:
        """Return its events from a place in its output on: 0 is the beginning, FROM_NOW what comes from now on."""
        s = AsyncCommandStream(self._sb, followed(self._sb, "GET", self._below + "/stream", None, {"from": from_}), False)
        # sync: s.open()
        return s

    def __aiter__(self) -> AsyncIterator[OutputEvent]:
        return self.stream()

    async def wait(self, *, on_stdout: Callable[[str], Any] | None = None, on_stderr: Callable[[str], Any] | None = None, check: bool = False) -> Result:
        """Wait until it has ended, and return its result with as much of its output as is kept.

        ``truncated`` says that it has written more.
        """
        kept = (bytearray(), bytearray())
        texts = (Decoder(), Decoder())
        calls = (on_stdout, on_stderr)
        lost = 0
        async with self.stream() as events:
            async for e in events:
                if isinstance(e, (Stdout, Stderr)):
                    i = 0 if isinstance(e, Stdout) else 1
                    kept[i].extend(e.data)
                    if text := texts[i].feed(e.data):
                        await called(calls[i], text)
                elif isinstance(e, Again):
                    for k in kept:
                        k.clear()
                    texts, lost = (Decoder(), Decoder()), 0
                elif isinstance(e, Dropped):
                    lost += e.bytes
                else:
                    for i in (0, 1):
                        if text := texts[i].end():
                            await called(calls[i], text)
                    r = Result(e.details, bytes(kept[0]), bytes(kept[1]), lost)
                    return r.check() if check else r
        raise UnavailableError("the process has no end")

    async def write(self, data: Data) -> None:
        """Write to its input, of which it must have been started with one."""
        view = octets(data)
        for at in range(0, len(view), MAX_INPUT // 2):
            await self._sb._done("POST", self._below + "/stdin", json=data_fields(view[at : at + MAX_INPUT // 2], "data", "dataBase64"))

    async def close_stdin(self) -> None:
        """End its input."""
        await self._sb._done("POST", self._below + "/stdin", json={"eof": True})

    async def signal(self, name: str) -> None:
        """Send a signal, such as TERM, to its process group."""
        await self._sb._done("POST", self._below + "/signal", json={"signal": name})

    async def kill(self) -> models.Process:
        """End it with all that it has started."""
        self._info = await self._sb._call("DELETE", self._below, models.Process)
        return self._info

    async def resize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal."""
        await self._sb._done("POST", self._below + "/resize", json={"rows": rows, "cols": cols})


class AsyncShell:
    """A shell that keeps its folder and its variables from line to line."""

    def __init__(self, sb: AsyncSandbox, info: models.Shell) -> None:
        self._sb = sb
        #: What the daemon said of it when it was opened.
        self.info = info
        self._below = f"/shells/{segment(info.id)}"

    @property
    def id(self) -> str:
        return self.info.id

    async def run(
        self, line: str, *, stdin: Data | None = None, timeout: float | None = None, on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None, check: bool = False, ask: bool = False, tool: str | None = None,
    ) -> Result:
        """Run a line to its end. ``restarted`` of the result says that the state was lost."""
        from .._core import command_fields
        from ._sandbox import watched

        body = command_fields(line, stdin=stdin, timeout=timeout, ask=ask, tool=tool)
        if on_stdout is None and on_stderr is None:
            r = Result.of(await self._sb._call("POST", self._below + "/run", models.ExecResult, json=body, unbounded=True))
        else:
            r = await watched(self._sb, self._sb._path + self._below + "/run", body, on_stdout, on_stderr)
        return r.check() if check else r

    async def aclose(self) -> None:
        """End the shell."""
        try:
            await self._sb._done("DELETE", self._below)
        except NotFoundError:
            pass

    async def __aenter__(self) -> AsyncShell:
        return self

    async def __aexit__(self, *_: object) -> None:
        with shielded(10):
            await self.aclose()
