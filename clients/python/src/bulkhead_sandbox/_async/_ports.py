from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .. import models
from .._core import WS_BINARY, octets, segment
from ..errors import UnavailableError, ValidationError
from ._http import AsyncSocket

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox

PIECE = 32 << 10


class AsyncConnection:
    """A connection to a TCP port inside. One task or thread may receive while another sends."""

    def __init__(self, socket: AsyncSocket) -> None:
        self._socket = socket
        self._left = b""
        self._ended = False

    async def send(self, data: bytes) -> None:
        view = octets(data)
        for at in range(0, len(view), PIECE):
            await self._socket.send_bytes(view[at : at + PIECE])

    async def receive(self, most: int = 65536, timeout: float | None = None) -> bytes:
        """Return up to so many bytes; b"" at the end."""
        while not self._left:
            if self._ended:
                return b""
            got = await self._socket.receive(timeout)
            if got is None or got[0] != WS_BINARY:  # the one text frame ends this direction
                self._ended = True
                return b""
            self._left = got[1]
        out, self._left = self._left[:most], self._left[most:]
        return out

    async def send_eof(self) -> None:
        """End the direction to the program inside."""
        await self._socket.send_text(b'{"type":"eof"}')

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if piece := await self.receive():
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._socket.aclose()

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncPorts:
    """The TCP ports at which programs inside listen."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sb = sandbox

    async def list(self) -> list[models.Port]:
        """Return the ports at which programs listen."""
        return (await self._sb._call("GET", "/ports", models.PortList, again=True)).items

    async def connect(self, port: int) -> AsyncConnection:
        """Connect to a port; UnavailableError while no program listens there."""
        sb = await self._sb._opened()
        return AsyncConnection(await sb._t.socket(f"{sb._path}/ports/{number(port)}", sb._headers))

    async def share(self, port: int, ttl: float | None = None, *, public: bool = False) -> models.NewShare:
        """Make a link to a port, which is in force for ttl seconds, an hour without."""
        body: dict[str, object] = {"port": number(port)}
        if ttl is not None:
            body["ttlSeconds"] = -int(-ttl // 1)
        if public:
            body["public"] = True
        return await self._sb._call("POST", "/shares", models.NewShare, json=body)

    async def shares(self) -> list[models.Share]:
        """Return the links that are in force."""
        return (await self._sb._call("GET", "/shares", models.ShareList, again=True)).items

    async def revoke(self, id: str) -> None:
        """End a link and cut its connections."""
        await self._sb._done("DELETE", f"/shares/{segment(id)}")

    async def url(self, port: int, path: str = "/") -> str:
        """Return the address at which the daemon passes requests on to a port; they need ``headers``.

        Of a daemon at a unix socket it is the address behind that socket.
        """
        sb = await self._sb._opened()
        a = sb._t.address
        if not path.startswith("/"):
            raise ValidationError("the path does not begin with /", field="path")
        return f"{a.scheme.decode()}://{a.authority.decode()}{sb._path}/ports/{number(port)}{path}"

    @property
    def headers(self) -> dict[str, str]:
        """What a request to ``url`` needs beside its own headers."""
        t = self._sb._t
        if t._pool is None:
            raise UnavailableError("the daemon is not started yet", hint="call url first")
        pairs = [*t.headers, *self._sb._headers]
        return {k.decode(): v.decode() for k, v in pairs if k not in (b"Host", b"User-Agent")}


def number(port: int) -> int:
    if isinstance(port, bool) or not 0 < port < 65536:
        raise ValidationError(f"{port} is no port", field="port")
    return port
