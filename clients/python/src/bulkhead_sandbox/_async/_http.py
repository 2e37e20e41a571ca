from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, TypeVar

import httpcore
import pydantic

from .. import _embedded
from .._core import (
    CONNECT, MAX_ANSWER, SILENCE, WS_BINARY, WS_CLOSE, WS_PING, WS_PONG, WS_TEXT, Address, Event, Events, Frames,
    check_token, cut, encoded, failure, parse_address, target, ws_frame,
)
from .._io_async import AsyncPool, blocking, make_pool, shielded, sleep
from ..errors import SandboxError, TimedOutError, UnavailableError, error_for

M = TypeVar("M", bound=pydantic.BaseModel)

AGAIN = 2  # times that a request is made again when the daemon is too busy
PAUSE = 10.0  # the longest Retry-After that is waited for

# What a connection raises when it breaks. The backends of httpcore pass on some errors
# of the operating system as they are.
BROKEN = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.ConnectionNotAvailable, OSError)


class AsyncTransport:
    """The connections to one daemon. It is safe for concurrent use."""

    def __init__(self, url: str | None, token: str | None, timeout: float | None) -> None:
        self._url = url or os.environ.get("SANDBOX_SERVER") or None
        self._token = token if token is not None else os.environ.get("SANDBOX_TOKEN") or None
        self._timeout = timeout
        self._lock = threading.Lock()  # it is never held across input or output
        self._pool: AsyncPool | None = None
        self._address: Address | None = None
        self._daemon: _embedded.Embedded | None = None
        self._owner = os.getpid()
        self._closed = False
        self.headers: list[tuple[bytes, bytes]] = []
        if self._url is not None:
            self._use(parse_address(self._url))

    @property
    def embedded(self) -> bool:
        """The daemon is one of this process."""
        return self._url is None

    @property
    def address(self) -> Address:
        if self._address is None:
            raise UnavailableError("the daemon is not started yet", hint="make a call first")
        return self._address

    def _use(self, a: Address) -> AsyncPool:
        check_token(a, self._token if self._url is not None else None)
        headers = [(b"Host", a.authority), (b"User-Agent", b"bulkhead-sandbox-python")]
        if self._token and self._url is not None:
            headers.append((b"Authorization", b"Bearer " + self._token.encode("ascii")))
        pool = make_pool(a.scheme == b"https", uds=a.socket, max_connections=None, max_keepalive_connections=32, keepalive_expiry=60)
        with self._lock:
            self._address, self._pool, self.headers, self._owner = a, pool, headers, os.getpid()
        return pool

    async def _ready(self) -> AsyncPool:
        pool = self._pool
        if pool is not None and self._owner == os.getpid():
            return pool
        if self._closed:
            raise UnavailableError("the client is closed", hint="make another one")
        if pool is not None and self._url is not None:  # a child of fork: the connections are the parent's
            return self._use(self.address)
        return await self._start()

    async def _start(self) -> AsyncPool:
        """Start the embedded daemon, or another one in place of one that has ended."""
        daemon = await blocking(_embedded.acquire)
        with self._lock:
            old, self._daemon = self._daemon, daemon
        if old is not None:
            await blocking(_embedded.release, old)
        return self._use(parse_address(daemon.address()))

    def forget(self) -> None:
        """Note that nothing was begun that aclose would end."""
        self._closed = True

    async def aclose(self) -> None:
        """Close the connections, and give back the daemon of this process."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
            daemon, self._daemon = self._daemon, None
        with shielded(60):
            if pool is not None and self._owner == os.getpid():
                await pool.aclose()
            if daemon is not None:
                await blocking(_embedded.release, daemon)

    async def send(
        self, method: bytes, path: bytes, headers: list[tuple[bytes, bytes]], content: bytes | AsyncIterator[bytes] | None = None,
        *, read: float | None = None, silence: float | None = None,
    ) -> httpcore.Response:
        """Make a request and return the answer, whatever it is, which has to be closed.

        read bounds the wait for its beginning and, where silence does not, for each piece.
        """
        for attempt in range(100):
            pool = self._pool
            if pool is None or self._owner != os.getpid():
                pool = await self._ready()
            a = self.address
            timeouts = {"connect": CONNECT, "read": read, "write": None, "pool": None}
            request = httpcore.Request(
                method, httpcore.URL(scheme=a.scheme, host=a.host, port=a.port, target=path), headers=self.headers + headers, content=content,
                extensions={"timeout": timeouts},
            )
            try:
                answer = await pool.handle_async_request(request)
                if silence is not None:
                    timeouts["read"] = silence
                return answer
            except (httpcore.ConnectError, httpcore.ConnectTimeout, FileNotFoundError, ConnectionRefusedError) as e:
                # Nothing was sent. Where programs share an embedded daemon that has
                # ended, another one takes its place within a moment.
                if self._daemon is None or attempt >= 99:
                    raise failure(e, a.text) from e
                if self._daemon.ended:
                    await self._start()
                elif self._daemon.address() != a.text:
                    self._use(parse_address(self._daemon.address()))
                else:
                    await sleep(0.1)
            except BROKEN as e:
                raise failure(e, a.text) from e
            except RuntimeError as e:
                if self._closed:
                    raise UnavailableError("the client is closed", hint="make another one") from e
                raise
        raise AssertionError("unreachable")

    async def request(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], *, query: Mapping[str, Any] | None = None, json: Any = None,
        content: bytes | AsyncIterator[bytes] | None = None, again: bool = False, read: float | None = None, silence: float | None = None,
    ) -> httpcore.Response:
        """Make a request and return the answer of a success, which has to be closed."""
        if json is not None:
            content = encoded(json)
            headers = [*headers, (b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(content))]
        elif isinstance(content, bytes):
            headers = [*headers, (b"Content-Length", b"%d" % len(content))]
        elif content is not None:
            headers = [*headers, (b"Transfer-Encoding", b"chunked")]
            again = False
        elif method in ("POST", "PUT"):
            headers = [*headers, (b"Content-Length", b"0")]
        where = target(path, query)
        for attempt in range(AGAIN + 1):
            answer = await self.send(method.encode("ascii"), where, headers, content, read=read, silence=silence)
            if answer.status < 300:
                return answer
            body = await self.read(answer)
            error = error_for(answer.status, body)
            pause = retry_after(answer)
            if not again or pause is None or attempt == AGAIN:
                raise error
            await sleep(pause)
        raise AssertionError("unreachable")

    async def read(self, answer: httpcore.Response, most: int | None = MAX_ANSWER) -> bytes:
        """Read an answer to its end, and close it."""
        parts: list[bytes] = []
        size = 0
        try:
            async for piece in answer.aiter_stream():
                parts.append(piece)
                size += len(piece)
                if most is not None and size > most:
                    raise UnavailableError("the daemon answers without end")
        except BROKEN as e:
            raise failure(e, self.address.text) from e
        finally:
            with shielded(5):
                await answer.aclose()
        return b"".join(parts)

    async def call(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], model: type[M], *, query: Mapping[str, Any] | None = None, json: Any = None,
        content: bytes | AsyncIterator[bytes] | None = None, again: bool = False, unbounded: bool = False,
    ) -> M:
        """Make a request and return what it is answered with."""
        read = None if unbounded else self._timeout
        answer = await self.request(method, path, headers, query=query, json=json, content=content, again=again, read=read)
        body = await self.read(answer)
        try:
            return model.model_validate_json(body)
        except pydantic.ValidationError as e:
            raise UnavailableError(
                f"the answer of the daemon cannot be read: {e.errors(include_url=False)[0]['msg']}", status=answer.status,
                hint="is the daemon of the same version as this package?",
            ) from e

    async def done(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], *, query: Mapping[str, Any] | None = None, json: Any = None, again: bool = False,
    ) -> None:
        """Make a request that has no answer but success."""
        await self.read(await self.request(method, path, headers, query=query, json=json, again=again, read=self._timeout))

    async def stream(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], *, query: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an answer, as they come."""
        answer = await self.request(method, path, headers, query=query, again=method == "GET", read=self._timeout)
        try:
            async for piece in answer.aiter_stream():
                yield piece
        except BROKEN as e:
            raise failure(e, self.address.text) from e
        finally:
            with shielded(5):
                await answer.aclose()

    async def events(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], *, query: Mapping[str, Any] | None = None, json: Any = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of an answer, which the caller ends after the last one.

        An event "error" is raised. A stream that ends by itself, or is silent, was cut
        off: that is UnavailableError too.
        """
        headers = [*headers, (b"Accept", b"text/event-stream")]
        answer = await self.request(method, path, headers, query=query, json=json, again=method == "GET", read=self._timeout, silence=SILENCE)
        reader = Events()
        try:
            if not header(answer, b"content-type").startswith(b"text/event-stream"):
                raise UnavailableError("the daemon answers with something else than events")
            async for piece in answer.aiter_stream():
                for event in reader.feed(piece):
                    if event.name == "error":
                        raise error_for(500, event.data)
                    yield event
            raise cut()
        except httpcore.ReadTimeout as e:
            raise cut("it says nothing, not even that it is there") from e
        except BROKEN as e:
            raise cut(str(e)) from e
        finally:
            with shielded(5):
                await answer.aclose()

    async def socket(self, path: str, headers: list[tuple[bytes, bytes]], *, query: Mapping[str, Any] | None = None) -> AsyncSocket:
        """Open a WebSocket."""
        key = "c2FuZGJveC1weXRob24tLQ=="
        headers = [
            *headers, (b"Upgrade", b"websocket"), (b"Connection", b"Upgrade"), (b"Sec-WebSocket-Version", b"13"), (b"Sec-WebSocket-Key", key.encode()),
        ]
        answer = await self.send(b"GET", target(path, query), headers, read=self._timeout)
        if answer.status != 101:
            raise error_for(answer.status, await self.read(answer))
        return AsyncSocket(answer)


class AsyncSocket:
    """A WebSocket. One task or thread may receive while another sends."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer
        self._stream: Any = answer.extensions["network_stream"]  # pyright: ignore[reportUnknownMemberType]
        self._frames = Frames()
        self._ready: list[tuple[int, bytes]] = []
        self._closed = False

    def header(self, name: bytes) -> str:
        return header(self._answer, name).decode("ascii", "replace")

    async def send_text(self, text: bytes) -> None:
        await self._send(WS_TEXT, text)

    async def send_bytes(self, data: bytes) -> None:
        await self._send(WS_BINARY, data)

    async def _send(self, kind: int, data: bytes) -> None:
        if self._closed:
            raise UnavailableError("the connection is closed")
        try:
            await self._stream.write(ws_frame(kind, data))
        except BROKEN as e:
            raise UnavailableError(f"the connection ended: {e}") from e

    async def receive(self, timeout: float | None = None) -> tuple[int, bytes] | None:
        """Return the next message, WS_TEXT or WS_BINARY; None after the other side has closed."""
        while True:
            while self._ready:
                kind, data = self._ready.pop(0)
                if kind == WS_PING:
                    await self._send(WS_PONG, data)
                elif kind == WS_CLOSE:
                    await self.aclose()
                    code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
                    if code not in (1000, 1005):
                        raise UnavailableError(f"the daemon has closed the connection: {data[2:].decode('utf-8', 'replace') or code}")
                    return None
                elif kind in (WS_TEXT, WS_BINARY):
                    return kind, data
            if self._closed:
                return None
            try:
                piece = await self._stream.read(1 << 16, timeout=timeout)
            except httpcore.ReadTimeout as e:
                raise TimedOutError("nothing came in time", retryable=True) from e
            except BROKEN as e:
                await self.aclose()
                raise UnavailableError(f"the connection ended: {e}") from e
            if not piece:
                await self.aclose()
                raise UnavailableError("the connection was cut off")
            self._ready += self._frames.feed(piece)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        with shielded(5):
            try:
                await self._stream.write(ws_frame(WS_CLOSE, (1000).to_bytes(2, "big")), timeout=1)
            except (*BROKEN, SandboxError):
                pass
            await self._answer.aclose()
            await self._stream.aclose()


def header(answer: httpcore.Response, name: bytes) -> bytes:
    for key, value in answer.headers:
        if key.lower() == name:
            return value
    return b""


def retry_after(answer: httpcore.Response) -> float | None:
    if answer.status not in (429, 503):
        return None
    text = header(answer, b"retry-after")
    seconds = int(text) if text.isdigit() else -1
    return float(seconds) if 0 <= seconds <= PAUSE else None

