from __future__ import annotations

import json as jsonlib
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from .. import models
from .._core import Identity, segment, settings_header
from ..errors import UnavailableError
from ._http import AsyncTransport

if TYPE_CHECKING:
    from ._sandbox import AsyncSandbox


class AsyncClient:
    """A client of a daemon.

    The address is ``url`` (unix:PATH, tcp:HOST:PORT, http://HOST or https://HOST), or
    $SANDBOX_SERVER; without both the client starts a daemon of this process, which ends
    with it. The token is ``token``, or $SANDBOX_TOKEN. ``tenant``, ``agent`` and ``session``
    say on whose behalf the calls are, ``settings`` (for admins) are laid over the daemon's.
    ``timeout`` bounds in seconds how long an answer may take to begin, except that of
    commands.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, tenant: str | None = None, agent: str | None = None,
        session: str | None = None, settings: Mapping[str, Any] | None = None, timeout: float | None = 900,
    ) -> None:
        self._open(AsyncTransport(url, token, timeout), Identity(tenant, agent, session, settings_header(settings)), True)

    def _open(self, transport: AsyncTransport, identity: Identity, owns: bool) -> None:
        self._transport = transport
        self._identity = identity
        self._headers = identity.headers()
        self._owns = owns
        self.tokens = AsyncTokens(self)
        self.approvals = AsyncApprovals(self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, and end the daemon of this process that no other client uses."""
        if self._owns:
            await self._transport.aclose()

    def for_(
        self, tenant: str | None = None, agent: str | None = None, session: str | None = None, *, settings: Mapping[str, Any] | None = None,
    ) -> AsyncClient:
        """Return a client over the same connections that calls on behalf of others."""
        i = self._identity
        other = AsyncClient.__new__(AsyncClient)
        other._open(
            self._transport,
            Identity(tenant or i.tenant, agent or i.agent, session or i.session, settings_header(settings) if settings else i.settings), False,
        )
        return other

    @property
    def url(self) -> str:
        """The address of the daemon."""
        return self._transport.address.text

    async def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, json: Any = None, content: bytes | None = None,
    ) -> Any:
        """Make a request for which there is no method, and return the JSON of its answer, bytes of another one, or None."""
        answer = await self._transport.request(method, path, self._headers, query=query, json=json, content=content)
        kind = next((v for k, v in answer.headers if k.lower() == b"content-type"), b"")
        body = await self._transport.read(answer)
        if kind.startswith(b"application/json"):
            try:
                return jsonlib.loads(body)
            except ValueError:
                raise UnavailableError("the answer of the daemon is no JSON") from None
        return body or None

    async def health(self) -> models.Health:
        """Report that the daemon runs."""
        return await self._transport.call("GET", "/healthz", self._headers, models.Health, again=True)

    async def ready(self) -> models.Readiness:
        """Report whether the daemon can serve; UnavailableError says what hinders it."""
        return await self._transport.call("GET", "/readyz", self._headers, models.Readiness)

    async def sandboxes(
        self, labels: Mapping[str, str] | None = None, *, agent: str | None = None, session: str | None = None, status: str | None = None,
        kind: str | None = None, all: bool | None = None, own: bool | None = None,
    ) -> AsyncGenerator[models.Sandbox, None]:
        """Yield the sandboxes that there are, in order of their names."""
        wanted = [f"{k}={v}" for k, v in (labels or {}).items()]
        cursor: str | None = None
        while True:
            query = {
                "agent": agent, "session": session, "status": status, "kind": kind, "all": all, "own": own, "label": wanted, "cursor": cursor,
            }
            page = await self._transport.call("GET", "/v1/sandboxes", self._headers, models.SandboxPage, query=query, again=True)
            for one in page.items:
                yield one
            cursor = page.next
            if not cursor:
                return

    async def sandbox(self, name: str) -> AsyncSandbox:
        """Return the sandbox of that name, which exists."""
        from ._sandbox import AsyncSandbox

        return await AsyncSandbox.connect(name, client=self)

    async def checkpoints(
        self, *, agent: str | None = None, session: str | None = None, sandbox: str | None = None,
    ) -> AsyncGenerator[models.Checkpoint, None]:
        """Yield the checkpoints that there are, the oldest first."""
        query = {"agent": agent, "session": session, "sandbox": sandbox}
        async for one in pages_of_checkpoints(self._transport, "/v1/checkpoints", self._headers, query):
            yield one

    async def checkpoint(self, ref: str) -> models.Checkpoint:
        """Return the checkpoint with that id or name."""
        return await self._transport.call("GET", f"/v1/checkpoints/{segment(ref)}", self._headers, models.Checkpoint, again=True)

    async def remove_checkpoint(self, checkpoint: str | models.Checkpoint) -> None:
        """Remove a checkpoint. Sandboxes that began with it keep their files."""
        await self._transport.done("DELETE", f"/v1/checkpoints/{segment(checkpoint_ref(checkpoint) or '')}", self._headers)

    async def usage(self) -> list[models.Usage]:
        """Return what the caller's sandboxes use."""
        return (await self._transport.call("GET", "/v1/usage", self._headers, models.UsageList, again=True)).items

    async def violations(self, **filters: Any) -> models.ViolationList:
        """Return what was tried and stopped. Filters are limit, agent, session, sandbox, since, until, all, type, severity."""
        return await self._transport.call("GET", "/v1/violations", self._headers, models.ViolationList, query=filters, again=True)

    async def clear_violations(self, **filters: Any) -> int:
        """Remove violations, and return how many."""
        return (await self._transport.call("DELETE", "/v1/violations", self._headers, models.Cleared, query=filters)).removed

    async def evidence(self, **filters: Any) -> models.EvidenceList:
        """Return records of evidence. Filters are limit, type, command, agent, session, sandbox, since, until, all."""
        return await self._transport.call("GET", "/v1/evidence", self._headers, models.EvidenceList, query=filters, again=True)

    async def operations(self, **filters: Any) -> models.OperationList:
        """Return operations with their begin and end."""
        return await self._transport.call("GET", "/v1/evidence/operations", self._headers, models.OperationList, query=filters, again=True)

    async def verify_evidence(self, **filters: Any) -> models.EvidenceReport:
        """Verify the chains of evidence."""
        return await self._transport.call("GET", "/v1/evidence/verify", self._headers, models.EvidenceReport, query=filters, again=True)

    async def pool(self) -> models.PoolStatus:
        """Report which sandboxes are kept ready; for admins."""
        return await self._transport.call("GET", "/v1/pool", self._headers, models.PoolStatus, again=True)


class AsyncTokens:
    """The tokens of a daemon that the caller may manage."""

    def __init__(self, client: AsyncClient) -> None:
        self._c = client

    async def create(
        self, role: str, *, tenant: str | None = None, agent: str | None = None, session: str | None = None, ttl: float | None = None,
        note: str | None = None, endless: bool | None = None, parent: str | None = None, quota: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> models.NewToken:
        """Make a token of the role admin, tenant or session with at most the caller's rights. Its secret is shown once."""
        body = {
            "role": role, "tenant": tenant, "agent": agent, "session": session, "ttlSeconds": int(ttl) if ttl is not None else None, "note": note,
            "endless": endless, "parent": parent, "quota": quota, "budget": budget,
        }
        body = {k: v for k, v in body.items() if v is not None}
        return await self._c._transport.call("POST", "/v1/tokens", self._c._headers, models.NewToken, json=body)

    async def list(self) -> list[models.Token]:
        """Return the tokens that were made from the caller's own."""
        return (await self._c._transport.call("GET", "/v1/tokens", self._c._headers, models.TokenList, again=True)).items

    async def get(self, id: str) -> models.Token:
        return await self._c._transport.call("GET", f"/v1/tokens/{segment(id)}", self._c._headers, models.Token, again=True)

    async def revoke(self, id: str) -> models.Revoked:
        """Revoke a token with all that were made from it."""
        return await self._c._transport.call("DELETE", f"/v1/tokens/{segment(id)}", self._c._headers, models.Revoked)


class AsyncApprovals:
    """The questions of commands that wait for a permission."""

    def __init__(self, client: AsyncClient) -> None:
        self._c = client

    async def list(self, wait: float | None = None) -> models.ApprovalList:
        """Return the questions; wait is for how many seconds to wait for one."""
        query = {"waitSeconds": int(wait) if wait else None}
        return await self._c._transport.call("GET", "/v1/approvals", self._c._headers, models.ApprovalList, query=query)

    async def answer(self, id: str, permission: str, note: str | None = None) -> None:
        """Answer with deny, allow_once, allow_session or allow_permanent."""
        body = {"permission": permission} if note is None else {"permission": permission, "note": note}
        await self._c._transport.done("POST", f"/v1/approvals/{segment(id)}", self._c._headers, json=body)


async def pages_of_checkpoints(
    transport: AsyncTransport, path: str, headers: list[tuple[bytes, bytes]], query: dict[str, Any],
) -> AsyncGenerator[models.Checkpoint, None]:
    """Yield the checkpoints of all pages."""
    cursor: str | None = None
    while True:
        page = await transport.call("GET", path, headers, models.CheckpointPage, query={**query, "cursor": cursor}, again=True)
        for one in page.items:
            yield one
        cursor = page.next
        if not cursor:
            return


def checkpoint_ref(checkpoint: str | models.Checkpoint | None) -> str | None:
    """Return what names a checkpoint."""
    return checkpoint.id if isinstance(checkpoint, models.Checkpoint) else checkpoint
