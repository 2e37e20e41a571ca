"""Input and output of the synchronous surface; _io_async has the same names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, TypeVar, Union

import httpcore

T = TypeVar("T")

# What can be written to a file: all of it, a file that is read, or its pieces.
Content = Union[bytes, bytearray, memoryview, str, "IO[bytes]", "IO[str]", Iterable[Union[bytes, str]]]

Pool = httpcore.ConnectionPool
Lock = threading.Lock


def make_pool(secure: bool, **options: Any) -> httpcore.ConnectionPool:
    """Return a pool of connections."""
    del secure
    return httpcore.ConnectionPool(**options)


def blocking(fn: Callable[..., T], *args: Any) -> T:
    return fn(*args)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def shielded(seconds: float) -> AbstractContextManager[Any]:
    del seconds
    return nullcontext()


def called(fn: Callable[..., Any] | None, *args: Any) -> None:
    if fn is not None:
        fn(*args)


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a file."""
    with path.open("rb") as f:
        while piece := f.read(1 << 18):
            yield piece


def chunks(data: Any) -> Iterator[bytes]:
    """Yield the pieces of something that can be iterated over, or read."""
    if hasattr(data, "read"):
        while piece := data.read(1 << 18):
            yield _octets(piece)
    else:
        for piece in data:
            yield _octets(piece)


def iterable(data: Any) -> bool:
    return hasattr(data, "read") or isinstance(data, Iterable)


def _octets(piece: Any) -> bytes:
    return piece.encode("utf-8") if isinstance(piece, str) else bytes(piece)
