"""The sandbox client of the OpenAI Agents SDK, set up for a daemon.

The SDK's client for Cloudflare takes the address of any server that speaks its
protocol, and the daemon does. :func:`sandbox_client` returns that client and its options:

    async with sandbox_client() as (client, options):
        sandbox = SandboxRunConfig(client=client, options=options)
        await Runner.run(agent, "...", run_config=RunConfig(sandbox=sandbox))
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions
from agents.sandbox.session import SandboxSession
from aiohttp import web
from yarl import URL

from bulkhead_sandbox import AsyncClient


@asynccontextmanager
async def sandbox_client(
    *,
    url: str | None = None,
    token: str | None = None,
    terminals: bool = True,
    **client_options: Any,
) -> AsyncIterator[tuple[CloudflareSandboxClient, CloudflareSandboxClientOptions]]:
    """Return a client for a daemon, and options of it.

    The daemon is found as everywhere in this package: ``url``, ``$SANDBOX_SERVER``, or an
    embedded one. Where it listens on a socket of the file system, which the SDK cannot
    connect to, requests go through a port of this machine's own that only the holder of a
    key drawn for it can use.

    The SDK runs each command of an agent in a terminal of its own, which it watches for
    ``yield_time_ms``, ten seconds unless the agent says otherwise. Without ``terminals``
    it runs the command by itself: the answer comes at once and has the exit status, and
    the command is ended after that time. ``client_options`` are those of ``CloudflareSandboxClient``.
    Tenant and agent are those of the token: the protocol has no others.
    """
    async with AsyncClient(url=url, token=token) as daemon:
        await daemon.health()
        client = (CloudflareSandboxClient if terminals else _WithoutTerminals)(**client_options)
        if daemon.url.startswith("unix:"):
            async with _relay(daemon.url.removeprefix("unix:"), daemon._transport._token) as (at, key):
                yield client, CloudflareSandboxClientOptions(worker_url=at, api_key=key)
        else:
            yield client, CloudflareSandboxClientOptions(worker_url=_http(daemon.url), api_key=daemon._transport._token)


class _WithoutTerminals(CloudflareSandboxClient):
    def _wrap_session(self, inner: Any, **options: Any) -> SandboxSession:
        inner.supports_pty = lambda: False
        return super()._wrap_session(inner, **options)


def _http(address: str) -> str:
    return "http://" + address.removeprefix("tcp:") if address.startswith("tcp:") else address


_HOP = {"host", "connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "proxy-authorization", "authorization", "content-length"}


@asynccontextmanager
async def _relay(path: str, token: str | None) -> AsyncIterator[tuple[str, str]]:
    """Pass requests of the holder of a key on to a socket, and return where and the key."""
    key, base = secrets.token_urlsafe(32), "http://localhost"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.UnixConnector(path=path, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            # The daemon takes the owner of the socket for its admin: nothing passes
            # without the key, and nothing but this protocol.
            given = request.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
                return web.json_response({"error": "a key is missing", "code": "unauthorized"}, status=401)
            raw = request.rel_url.raw_path
            if raw != "/v1/sandbox" and not raw.startswith("/v1/sandbox/") or ".." in raw.split("/"):
                return web.json_response({"error": "not found", "code": "not_found"}, status=404)
            to = base + request.raw_path
            sent = {k: v for k, v in request.headers.items() if k.lower() not in _HOP and not k.lower().startswith(("sec-websocket", "sandbox-"))}
            sent.update(headers)
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await _terminal(request, session, to, sent)
            body = request.content if request.body_exists else None
            async with session.request(request.method, _exact(to), headers=sent, data=body, allow_redirects=False) as answer:
                response = web.StreamResponse(status=answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _HOP:
                        response.headers[name] = value
                if answer.content_length is not None:
                    response.content_length = answer.content_length
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response

        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{rest:.*}", handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            yield f"http://127.0.0.1:{port}", key
        finally:
            await runner.cleanup()


def _exact(url: str) -> URL:
    return URL(url, encoded=True)


async def _terminal(request: web.Request, session: aiohttp.ClientSession, to: str, headers: Mapping[str, str]) -> web.StreamResponse:
    try:
        upstream = await session.ws_connect(_exact(to), headers=headers, max_msg_size=0)
    except aiohttp.WSServerHandshakeError as e:
        return web.json_response({"error": e.message, "code": "refused"}, status=e.status)
    async with upstream:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)

        async def copy(a: Any, b: Any) -> None:
            async for m in a:
                if m.type == aiohttp.WSMsgType.BINARY:
                    await b.send_bytes(m.data)
                elif m.type == aiohttp.WSMsgType.TEXT:
                    await b.send_str(m.data)
            await b.close()

        tasks = [asyncio.create_task(copy(socket, upstream)), asyncio.create_task(copy(upstream, socket))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return socket
