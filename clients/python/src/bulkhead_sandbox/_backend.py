"""The network of the asynchronous surface under asyncio.

httpcore's own backend passes through the loop about six times for each request, which
costs more than the rest of a call. This one sends and receives at once where the
socket is ready, and else waits for it without a buffer in between, so that a wait that
is cancelled loses nothing that came. Under trio, with TLS, and where loops have no
readers, httpcore's own is used.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import httpcore
import sniffio

_PIECE = 1 << 18


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            try:
                return self._sock.recv(min(max_bytes, _PIECE))
            except (BlockingIOError, InterruptedError):
                await self._wait(False, timeout, httpcore.ReadTimeout)
            except OSError as e:
                raise httpcore.ReadError(str(e)) from e

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except (BlockingIOError, InterruptedError):
                await self._wait(True, timeout, httpcore.WriteTimeout)
            except OSError as e:
                raise httpcore.WriteError(str(e)) from e

    async def _wait(self, writing: bool, timeout: float | None, late: type[Exception]) -> None:
        """Wait until the socket is ready."""
        fd = self._sock.fileno()
        if fd < 0:
            raise httpcore.ReadError("the connection is closed")
        loop = self._loop
        ready: asyncio.Future[None] = loop.create_future()
        add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
        add(fd, _set, ready)
        timer = loop.call_later(timeout, _expire, ready, late) if timeout is not None else None
        try:
            await ready
        finally:
            if timer is not None:
                timer.cancel()
            if self._sock.fileno() == fd:
                remove(fd)

    async def aclose(self) -> None:
        fd = self._sock.fileno()
        if fd >= 0:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "socket":
            return self._sock
        if info == "client_addr":
            return self._sock.getsockname()
        if info == "server_addr":
            return self._sock.getpeername()
        if info == "is_readable":
            fd = self._sock.fileno()
            if fd < 0:
                return True
            p = select.poll()
            p.register(fd, select.POLLIN)
            return bool(p.poll(0))
        return None


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _expire(ready: asyncio.Future[None], late: type[Exception]) -> None:
    if not ready.done():
        ready.set_exception(late())


class AsyncBackend(httpcore.AsyncNetworkBackend):
    """Connects."""

    def __init__(self) -> None:
        self._other: Any = httpcore.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None, socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if not _ours():
            return await self._other.connect_tcp(host, port, timeout, local_address, socket_options)
        loop = asyncio.get_running_loop()
        error: OSError = ConnectionError(f"{host} has no address")
        with _bounded(timeout):
            try:
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as e:
                raise httpcore.ConnectError(str(e)) from e
            for family, kind, proto, _, where in found:
                try:
                    sock = socket.socket(family, kind, proto)
                    try:
                        sock.setblocking(False)
                        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        await loop.sock_connect(sock, where)
                    except BaseException:
                        sock.close()
                        raise
                    return _Stream(sock)
                except OSError as e:
                    error = e
        raise httpcore.ConnectError(str(error)) from error

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if not _ours():
            return await self._other.connect_unix_socket(path, timeout, socket_options)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            with _bounded(timeout):
                while True:
                    try:
                        sock.connect(path)
                        return _Stream(sock)
                    except BlockingIOError:  # the daemon's queue is full, and nothing says when it is not
                        await asyncio.sleep(0.01)
        except BaseException as e:
            sock.close()
            if isinstance(e, OSError):
                raise httpcore.ConnectError(str(e)) from e
            raise

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _bounded:
    """Bounds a block, which is then httpcore.ConnectTimeout."""

    def __init__(self, timeout: float | None) -> None:
        self._scope = anyio.fail_after(timeout)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        try:
            return self._scope.__exit__(*error)
        except TimeoutError as e:
            raise httpcore.ConnectTimeout() from e


def _ours() -> bool:
    return sys.platform != "win32" and sniffio.current_async_library() == "asyncio"


def pool(secure: bool, **options: Any) -> httpcore.AsyncConnectionPool:
    """Return a pool of connections."""
    made: Callable[..., httpcore.AsyncConnectionPool] = httpcore.AsyncConnectionPool
    return made(**options) if secure else made(network_backend=AsyncBackend(), **options)
