"""Compares calls of the SDK with plain HTTP.

    python -m bulkhead_sandbox.bench [--calls N] [--url ADDRESS]

One run alternates the same request over a plain connection of http.client, which is
kept alive, with a call of Sandbox and one of AsyncSandbox, so that what else the machine
does concerns all alike. Times are in milliseconds; over is how much longer the median of
the SDK is.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import socket
import time
from collections.abc import Awaitable, Callable

from . import AsyncClient, AsyncSandbox, Client, Sandbox
from ._core import parse_address


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def measure(url: str | None, calls: int) -> list[tuple[str, list[float], list[float], list[float]]]:
    """Return the times of each kind of call: plain, of Sandbox, and of AsyncSandbox."""
    out: list[tuple[str, list[float], list[float], list[float]]] = []
    loop = asyncio.new_event_loop()
    with Client(url) as client, Sandbox(client=client) as sb:
        sb.files.write("small", b"x" * 100)
        a = parse_address(client.url)
        plain = _Unix(a.socket) if a.socket else http.client.HTTPConnection(a.host.decode(), a.port)
        headers = {k.decode(): v.decode() for k, v in [*client._transport.headers, *sb._headers]}
        base = f"/v1/sandboxes/{sb.name}"

        def request(method: str, path: str, body: bytes | None = None) -> Callable[[], object]:
            more = {**headers, "Content-Type": "application/json"} if body else headers

            def call() -> object:
                plain.request(method, path, body, more)
                r = plain.getresponse()
                data = r.read()
                if r.status != 200:
                    raise RuntimeError(f"{method} {path}: {r.status}")
                # What a program does with an answer without an SDK: it reads the JSON.
                return json.loads(data) if r.getheader("Content-Type", "").startswith("application/json") else data

            return call

        async def opened() -> AsyncSandbox:
            return await AsyncSandbox.connect(sb.name, client=AsyncClient(client.url))

        other = loop.run_until_complete(opened())
        kinds: list[tuple[str, Callable[[], object], Callable[[], object], Callable[[], Awaitable[object]]]] = [
            ("run true", request("POST", base + "/exec", b'{"args":["true"]}'), lambda: sb.run(["true"]), lambda: other.run(["true"])),
            ("read", request("GET", base + "/files/workspace/small"), lambda: sb.files.read("small"), lambda: other.files.read("small")),
            ("stat", request("GET", base + "/files/workspace/small?stat=true"), lambda: sb.files.stat("small"), lambda: other.files.stat("small")),
        ]
        for name, one, two, three in kinds:
            times: tuple[list[float], list[float], list[float]] = ([], [], [])
            for i in range(calls + 20):
                begun = time.perf_counter()
                one()
                between = time.perf_counter()
                two()
                ended = time.perf_counter()
                third = loop.run_until_complete(_timed(three))
                if i >= 20:  # the first ones open connections and build models
                    times[0].append((between - begun) * 1e3)
                    times[1].append((ended - between) * 1e3)
                    times[2].append(third * 1e3)
            out.append((name, sorted(times[0]), sorted(times[1]), sorted(times[2])))
        plain.close()
        loop.run_until_complete(other.client.aclose())
    loop.close()
    return out


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    """Time a call within the loop, as programs make it."""
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


def median(times: list[float]) -> float:
    return times[len(times) // 2]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--calls", type=int, default=500)
    p.add_argument("--url")
    o = p.parse_args()
    print(f"{'call':10}{'plain p50':>11}{'p95':>8}{'sync p50':>11}{'p95':>8}{'over':>8}{'async p50':>11}{'p95':>8}{'over':>8}")
    for name, a, b, c in measure(o.url, o.calls):
        at = int(len(a) * 0.95)
        print(
            f"{name:10}{median(a):11.3f}{a[at]:8.3f}{median(b):11.3f}{b[at]:8.3f}{median(b) - median(a):8.3f}"
            f"{median(c):11.3f}{c[at]:8.3f}{median(c) - median(a):8.3f}"
        )


if __name__ == "__main__":
    main()
