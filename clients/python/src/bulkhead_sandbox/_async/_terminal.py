from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from .._core import WS_BINARY, Data, octets
from ..errors import UnavailableError, ValidationError, error_for
from ._http import AsyncSocket

PIECE = 32 << 10  # bytes of input in a frame


class AsyncTerminal:
    """A terminal, over a WebSocket. It is an iterator over its output.

    One task or thread may read while others write.
    """

    def __init__(self, socket: AsyncSocket, id: str | None) -> None:
        self._socket = socket
        #: What finds a terminal again that was kept.
        self.id = id
        #: The exit status, once it has ended.
        self.exit_code: int | None = None
        self.signal: str | None = None

    async def write(self, data: Data) -> None:
        """Type."""
        view = octets(data)
        for at in range(0, len(view), PIECE):
            await self._socket.send_bytes(b"\x00" + view[at : at + PIECE])

    async def read(self, timeout: float | None = None) -> bytes:
        """Return a piece of output; b"" once the terminal has ended."""
        while True:
            got = await self._socket.receive(timeout)
            if got is None:
                return b""
            kind, data = got
            if kind == WS_BINARY:
                if data[:1] in (b"\x01", b"\x02") and len(data) > 1:
                    return data[1:]
                continue
            event = _control(data)
            if event.get("type") == "exit":
                exit: Any = event.get("exit") or {}
                self.exit_code, self.signal = exit.get("code"), exit.get("signal")
                await self._socket.aclose()
                return b""
            if event.get("type") == "error":
                await self._socket.aclose()
                raise error_for(500, json.dumps(event.get("error")).encode())

    async def read_until(self, text: str, timeout: float = 30) -> str:
        """Return the output up to a text."""
        out = b""
        while text.encode() not in out:
            piece = await self.read(timeout)
            if not piece:
                raise UnavailableError(f"the terminal has ended without {text!r}: {out.decode('utf-8', 'replace')[-200:]}")
            out += piece
        return out.decode("utf-8", "replace")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if piece := await self.read():
            return piece
        raise StopAsyncIteration

    async def resize(self, rows: int, cols: int) -> None:
        await self._control(type="resize", rows=rows, cols=cols)

    async def signal_group(self, name: str) -> None:
        """Send a signal, such as INT."""
        await self._control(type="signal", signal=name)

    async def kill(self) -> None:
        """End what runs on it."""
        await self._control(type="kill")

    async def _control(self, **fields: Any) -> None:
        await self._socket.send_text(json.dumps(fields).encode())

    async def aclose(self) -> None:
        """Close the connection, which ends the terminal unless it was kept."""
        await self._socket.aclose()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _control(data: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnavailableError("a message of the daemon cannot be read")
    return found  # pyright: ignore[reportUnknownVariableType]


def request(command: Any, rows: int, cols: int, cwd: str | None, env: dict[str, str] | None) -> bytes:
    """Return the first message of a terminal."""
    body: dict[str, Any] = {"tty": {"rows": rows, "cols": cols}}
    if isinstance(command, str):
        body["line"] = command
    elif command is not None:
        body["args"] = list(command)
    if cwd is not None:
        body["dir"] = cwd
    if env:
        body["env"] = env
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError) as e:
        raise ValidationError(str(e)) from None

