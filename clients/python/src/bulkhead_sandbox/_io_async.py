"""Input and output of the asynchronous surface; _io_sync has the same names."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TypeVar, Union

import anyio
import anyio.to_thread
import httpcore

from ._backend import pool as make_pool

T = TypeVar("T")

__all__ = ["AsyncLock", "AsyncPool", "Content", "blocking", "called", "chunks", "iterable", "make_pool", "pieces", "shielded", "sleep"]

# What can be written to a file: all of it, a file that is read, or its pieces.
Content = Union[bytes, bytearray, memoryview, str, "IO[bytes]", "IO[str]", Iterable[Union[bytes, str]], AsyncIterable[Union[bytes, str]]]

AsyncPool = httpcore.AsyncConnectionPool
AsyncLock = anyio.Lock


async def blocking(fn: Callable[..., T], *args: Any) -> T:
    """Call fn in a thread."""
    return await anyio.to_thread.run_sync(fn, *args)


async def sleep(seconds: float) -> None:
    await anyio.sleep(seconds)


def shielded(seconds: float) -> AbstractContextManager[Any]:
    """Return a scope that a cancellation does not reach, for so long."""
    return anyio.move_on_after(seconds, shield=True)


async def called(fn: Callable[..., Any] | None, *args: Any) -> None:
    """Call a function of the user's, which may be asynchronous."""
    if fn is not None:
        out = fn(*args)
        if isinstance(out, Awaitable):
            await out


async def pieces(path: Path) -> AsyncIterator[bytes]:
    """Yield the content of a file."""
    f = await anyio.open_file(path, "rb")
    try:
        while piece := await f.read(1 << 18):
            yield piece
    finally:
        with anyio.CancelScope(shield=True):
            await f.aclose()


async def chunks(data: Any) -> AsyncIterator[bytes]:
    """Yield the pieces of something that can be iterated over, asynchronously or not, or read."""
    if hasattr(data, "__aiter__"):
        async for piece in data:
            yield _octets(piece)
    elif hasattr(data, "read"):
        while True:
            piece: Any = data.read(1 << 18)
            if hasattr(piece, "__await__"):
                piece = await piece
            if not piece:
                return
            yield _octets(piece)
    else:
        for piece in data:
            yield _octets(piece)


def iterable(data: Any) -> bool:
    return hasattr(data, "__aiter__") or hasattr(data, "read") or isinstance(data, Iterable)


def _octets(piece: Any) -> bytes:
    return piece.encode("utf-8") if isinstance(piece, str) else bytes(piece)
