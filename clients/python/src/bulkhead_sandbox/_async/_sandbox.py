from __future__ import annotations

import os
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import pydantic

from .. import models
from .._core import Command, Data, Identity, command_fields, output_bytes, seconds, segment, settings_header
from .._io_async import called, shielded
from .._results import OutputEvent, Result
from .._text import Decoder
from ..errors import NotFoundError, ValidationError
from ._client import AsyncClient, checkpoint_ref, pages_of_checkpoints
from ._code import run_code
from ._files import AsyncFiles
from ._processes import AsyncCommandStream, AsyncProcess, AsyncShell, followed
from ._terminal import AsyncTerminal
from ._terminal import request as terminal_request

M = TypeVar("M", bound=pydantic.BaseModel)


class AsyncSandbox:
    """A sandbox.

    With ``session`` it is the sandbox of that session, made when missing, which stays at
    the end of ``async with``. Without, it is one of its own, which is removed then.
    ``keep`` decides otherwise.

    ``image``, ``preset``, ``env``, ``labels``, ``metadata``, ``network`` (the hosts that can be reached,
    or a dict with allowed_domains and denied_domains), ``limits`` (memory and disk in bytes, cpus,
    processes), ``timeout`` (seconds until it ends), ``on_timeout`` and ``auto_resume`` are what a
    request may ask for within the ceilings of the daemon. ``from_checkpoint`` is the checkpoint, or
    its id or name, that a new sandbox begins with. ``secrets`` (the name of a variable
    of the daemon, and the hosts that get it), ``settings`` and ``workspace`` are settings, which a daemon takes from
    admins alone. ``client`` is a client to use; ``url``, ``token``, ``tenant`` and ``agent`` make one.
    """

    def __init__(
        self, session: str | None = None, *, url: str | None = None, token: str | None = None, tenant: str | None = None, agent: str | None = None,
        client: AsyncClient | None = None, image: str | None = None, preset: str | None = None, env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None, metadata: Mapping[str, str] | None = None,
        network: Mapping[str, Any] | list[str] | None = None, limits: Mapping[str, Any] | None = None,
        secrets: Mapping[str, list[str]] | None = None, timeout: float | None = None, on_timeout: str | None = None,
        auto_resume: bool | None = None, ttl: float | None = None, from_checkpoint: str | models.Checkpoint | None = None,
        settings: Mapping[str, Any] | None = None, workspace: str | os.PathLike[str] | None = None, keep: bool | None = None,
    ) -> None:
        if session == "":
            raise ValidationError("the session is empty", field="session", hint="leave it out for a sandbox of its own")
        if client is not None and (url is not None or token is not None):
            raise ValidationError("a client has its address and its token already", field="client")
        self._keep = keep if keep is not None else session is not None
        self._session = session or f"sdk-{uuid.uuid4().hex[:20]}"
        layer: dict[str, Any] = dict(settings or {})
        if secrets:
            n: dict[str, Any] = dict(layer.get("network", {}))
            n["secrets"] = {**n.get("secrets", {}), **{k: {"hosts": v} for k, v in secrets.items()}}
            layer["network"] = n
        body: dict[str, Any] = {
            "image": image, "preset": preset, "env": dict(env) if env else None, "labels": dict(labels) if labels else None,
            "metadata": dict(metadata) if metadata else None, "network": rules(network) if network is not None else None,
            "resources": dict(limits) if limits else None, "timeout": whole(timeout, "timeout"), "onTimeout": on_timeout,
            "autoResume": auto_resume, "ttlSeconds": whole(ttl, "ttl"), "from": checkpoint_ref(from_checkpoint),
        }
        self._creation = {k: v for k, v in body.items() if v is not None}
        path = os.path.abspath(workspace) if workspace is not None else None
        header = settings_header(layer, path)
        self._owns = client is None
        c = client or AsyncClient(url, token=token, tenant=tenant, agent=agent)
        i = c._identity
        try:
            self._start(c, Identity(tenant or i.tenant, agent or i.agent, self._session, header or i.settings))
        except BaseException:
            if self._owns:
                c._transport.forget()
            raise
        # sync: self._opened()

    def _start(self, client: AsyncClient, identity: Identity) -> None:
        self._client = client
        self._t = client._transport
        self._headers = identity.headers()
        self._info: models.Sandbox | None = None
        self._path = ""
        self._removed = False
        self._parts()

    def _parts(self) -> None:
        from ._browser import AsyncBrowser
        from ._code import AsyncContexts
        from ._network import AsyncNetwork
        from ._ports import AsyncPorts
        from ._tools import AsyncTools

        self.files = AsyncFiles(self)
        self.contexts = AsyncContexts(self)
        self.ports = AsyncPorts(self)
        self.network = AsyncNetwork(self)
        self.tools = AsyncTools(self)
        self.browser = AsyncBrowser(self)

    @classmethod
    async def create(cls, session: str | None = None, **options: Any) -> AsyncSandbox:
        """Make the sandbox, and return it when it is up. Options are those of the class."""
        sb = cls(session, **options)
        return await sb._opened()

    @classmethod
    async def connect(
        cls, name: str, *, client: AsyncClient | None = None, url: str | None = None, token: str | None = None, tenant: str | None = None,
        agent: str | None = None,
    ) -> AsyncSandbox:
        """Return the sandbox of that name, which exists. It stays at the end of ``async with``."""
        sb = cls.__new__(cls)
        sb._keep, sb._session, sb._creation = True, "", {}
        sb._owns = client is None
        c = client or AsyncClient(url, token=token, tenant=tenant, agent=agent)
        i = c._identity
        sb._start(c, Identity(i.tenant, i.agent, None, i.settings))
        sb._path = f"/v1/sandboxes/{segment(name)}"
        try:
            info = await sb.info()
        except BaseException:
            await sb.aclose()
            raise
        sb._session = info.session
        return sb

    async def _opened(self) -> AsyncSandbox:
        if self._path:
            return self
        try:
            info = await self._t.call("POST", "/v1/sandboxes", self._headers, models.Sandbox, json=self._creation)
        except BaseException:
            if self._owns:
                await self._client.aclose()
            raise
        self._info, self._path = info, f"/v1/sandboxes/{segment(info.name)}"
        return self

    async def __aenter__(self) -> AsyncSandbox:
        return await self._opened()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Remove the sandbox unless it is to be kept, and close the client that was made for it."""
        with shielded(120):
            try:
                if not self._keep and self._path and not self._removed:
                    await self.remove(force=True, workspace=True)
            except NotFoundError:
                pass  # it has ended, or another client has removed it
            finally:
                if self._owns:
                    await self._client.aclose()

    @property
    def client(self) -> AsyncClient:
        return self._client

    @property
    def name(self) -> str:
        """The name of the sandbox, by which it is found."""
        if self._info is None:
            raise ValidationError("the sandbox is not made yet", hint="use it with `async with`, or make it with create()")
        return self._info.name

    @property
    def session(self) -> str:
        return self._session

    async def _call(self, method: str, below: str, model: type[M], **more: Any) -> M:
        if not self._path:
            await self._opened()
        return await self._t.call(method, self._path + below, self._headers, model, **more)

    async def _done(self, method: str, below: str, **more: Any) -> None:
        if not self._path:
            await self._opened()
        await self._t.done(method, self._path + below, self._headers, **more)

    async def info(self) -> models.Sandbox:
        """Return what the daemon knows of the sandbox now."""
        self._info = await self._call("GET", "", models.Sandbox, again=True)
        return self._info

    async def refresh(self) -> models.Sandbox:
        """The same as info."""
        return await self.info()

    # Commands.

    async def run(
        self, command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None, stdin: Data | None = None,
        timeout: float | None = None, on_stdout: Callable[[str], Any] | None = None, on_stderr: Callable[[str], Any] | None = None,
        check: bool = False, user: str | None = None, ask: bool = False, tool: str | None = None,
    ) -> Result:
        """Run a command to its end.

        A str is a line for the shell, a list a program and its arguments. That it fails is
        no error but a result, unless ``check`` is set. on_stdout and on_stderr are called
        with what it writes as it comes. The command ends when the call is cancelled.
        """
        body = command_fields(command, cwd=cwd, env=env, stdin=stdin, timeout=timeout, user=user, ask=ask, tool=tool)
        if on_stdout is None and on_stderr is None:
            result = Result.of(await self._call("POST", "/exec", models.ExecResult, json=body, unbounded=True))
        else:
            await self._opened()
            result = await watched(self, self._path + "/exec", body, on_stdout, on_stderr)
        return result.check() if check else result

    def stream(
        self, command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None, stdin: Data | None = None,
        timeout: float | None = None, background: bool = False, tag: str | None = None, user: str | None = None, ask: bool = False,
        tool: str | None = None,
    ) -> AsyncCommandStream:
        """Run a command and return its events: Stdout, Stderr and, as the last, Exit.

        A connection that breaks is replaced, and the stream goes on where it was. A command
        that is left before its end is ended, unless it is in the background.
        """
        body = command_fields(command, cwd=cwd, env=env, stdin=stdin, timeout=timeout, user=user, ask=ask, tool=tool)
        if background:
            body["background"] = True
        if tag is not None:
            body["tag"] = tag

        async def events() -> AsyncGenerator[OutputEvent | models.Process, None]:
            await self._opened()
            inner = followed(self, "POST", "/exec/stream", body)
            try:
                async for e in inner:
                    yield e
            finally:
                await inner.aclose()

        s = AsyncCommandStream(self, events(), not background)
        # sync: s.open()
        return s

    async def start(
        self, command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None, stdin: bool | Data = True,
        timeout: float | None = None, tty: tuple[int, int] | None = None, tag: str | None = None, user: str | None = None, ask: bool = False,
        tool: str | None = None,
    ) -> AsyncProcess:
        """Start a command that goes on without its client, and return when it runs.

        ``stdin`` is True for an input to write to, False for none, or all of it. ``tty`` are rows
        and columns of a terminal to run it on. ``tag`` is a name for it.
        """
        given = None if isinstance(stdin, bool) else stdin
        body = command_fields(command, cwd=cwd, env=env, stdin=given, timeout=timeout, user=user, ask=ask, tool=tool)
        if stdin is True:
            body["stdinOpen"] = True
        if tty is not None:
            body["tty"] = {"rows": tty[0], "cols": tty[1]}
        if tag is not None:
            body["tag"] = tag
        return AsyncProcess(self, await self._call("POST", "/processes", models.Process, json=body, unbounded=True))

    async def processes(self) -> list[AsyncProcess]:
        """Return the processes of the session: those that run, and those that ended a short time ago."""
        found = await self._call("GET", "/processes", models.ProcessList, again=True)
        return [AsyncProcess(self, p) for p in found.items]

    async def process(self, ref: str | int) -> AsyncProcess:
        """Return the process with that id, number or tag."""
        return AsyncProcess(self, await self._call("GET", f"/processes/{segment(str(ref))}", models.Process, again=True))

    async def shell(self, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> AsyncShell:
        """Open a shell that keeps its folder and its variables."""
        body: dict[str, Any] = {}
        if cwd is not None:
            body["dir"] = cwd
        if env:
            body["env"] = dict(env)
        return AsyncShell(self, await self._call("POST", "/shells", models.Shell, json=body))

    async def shells(self) -> list[models.Shell]:
        """Return the shells that are open."""
        return (await self._call("GET", "/shells", models.ShellList, again=True)).items

    async def terminal(
        self, rows: int = 24, cols: int = 80, *, command: Command | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None,
        keep: bool = False, id: str | None = None,
    ) -> AsyncTerminal:
        """Open a terminal with a shell, or with a command.

        With ``keep`` it stays when the connection ends, and ``id`` of it finds it again.
        """
        await self._opened()
        query: dict[str, Any] = {"keep": True, "rows": rows, "cols": cols} if keep else {"id": id}
        kept = keep or id is not None
        if kept and (command is not None or cwd is not None or env):
            raise ValidationError("a terminal that stays runs the shell of the sandbox", field="command")
        socket = await self._t.socket(self._path + "/pty", self._headers, query=query)
        try:
            await socket.send_text(terminal_request(command, rows, cols, cwd, dict(env) if env else None))
        except BaseException:
            await socket.aclose()
            raise
        return AsyncTerminal(socket, id or socket.header(b"sandbox-terminal") or None)

    async def terminals(self) -> list[models.Terminal]:
        """Return the terminals that stay."""
        return (await self._call("GET", "/terminals", models.TerminalList, again=True)).items

    async def end_terminal(self, id: str) -> None:
        """End a terminal that stays."""
        await self._done("DELETE", f"/terminals/{segment(id)}")

    async def run_code(
        self, code: str, *, language: str | None = None, context: str | models.CodeContext | None = None,
        on_event: Callable[[models.CodeEvent], Any] | None = None, timeout: float | None = None, env: Mapping[str, str] | None = None,
        cwd: str | None = None, ask: bool = False, tool: str | None = None,
    ) -> models.CodeRun:
        """Run code in a kernel that keeps its variables from run to run.

        ``language`` is python (without), javascript or bash, or that of the context. Code that
        fails is a result with ``error``. The sandbox needs the image of the code interpreter.
        """
        return await run_code(self, code, language, context, on_event, timeout, env, cwd, ask, tool)

    # The session's life.

    async def pause(self, force: bool | None = None) -> models.Sandbox:
        """Freeze the sandbox until its next use, or until it is resumed where auto_resume is False."""
        self._info = await self._call("POST", "/pause", models.Sandbox, query={"force": force})
        return self._info

    async def resume(self) -> models.Sandbox:
        """Thaw the sandbox."""
        self._info = await self._call("POST", "/resume", models.Sandbox)
        return self._info

    async def extend(self, seconds: float) -> models.Sandbox:
        """Keep the sandbox for so long from now on, while it is not used."""
        self._info = await self._call("POST", "/extend", models.Sandbox, json={"ttlSeconds": whole(seconds, "seconds")})
        return self._info

    async def set_timeout(self, seconds: float) -> models.Sandbox:
        """End the sandbox after so many seconds from now, whatever runs in it; 0 is no end."""
        self._info = await self._call("POST", "/timeout", models.Sandbox, json={"timeout": whole(seconds, "seconds")})
        return self._info

    async def recreate(self, force: bool = False) -> models.Sandbox:
        """Remove the sandbox and make it anew. Its workspace stays."""
        self._info = await self._call("POST", "/recreate", models.Sandbox, json={"force": force})
        return self._info

    async def usage(self) -> models.Usage:
        """Return what the sandbox uses."""
        return await self._call("GET", "/usage", models.Usage, again=True)

    async def remove(self, *, force: bool = False, workspace: bool = False) -> None:
        """Remove the sandbox: also one in use with force, and its files with workspace."""
        await self._done("DELETE", "", query={"force": force or None, "workspace": workspace or None})
        self._removed = True

    # States.

    async def checkpoint(self, name: str | None = None) -> models.Checkpoint:
        """Keep the state of the sandbox, to go back to and to begin others with. What runs goes on, and is not kept.

        No two checkpoints of a tenant have the same name.
        """
        return await self._call("POST", "/checkpoints", models.Checkpoint, json={"name": name} if name is not None else {})

    async def checkpoints(self) -> list[models.Checkpoint]:
        """Return the checkpoints of the sandbox, the oldest first."""
        await self._opened()
        return [one async for one in pages_of_checkpoints(self._t, self._path + "/checkpoints", self._headers, {})]

    async def rollback(self, checkpoint: str | models.Checkpoint) -> models.RolledBack:
        """Give the sandbox the state of a checkpoint. What runs in it is ended, and what it holds is given up."""
        return await self._call("POST", "/rollback", models.RolledBack, json={"checkpoint": checkpoint_ref(checkpoint)})

    async def fork(
        self, count: int | None = None, *, sessions: list[str] | None = None, from_checkpoint: str | models.Checkpoint | None = None,
    ) -> list[models.Forked]:
        """Make sandboxes that begin with the state of this one, which goes on, or of a checkpoint.

        Without ``sessions`` they belong to SESSION-fork-1 and so on. One that could not be made
        has a ``problem``, and the others are made; ``client.sandbox(name)`` returns one.
        """
        body = {"count": count, "sessions": sessions, "from": checkpoint_ref(from_checkpoint)}
        return (await self._call("POST", "/fork", models.ForkList, json={k: v for k, v in body.items() if v is not None})).items

    # Changes of a private workspace.

    async def changes(self, *paths: str, since: str | models.Checkpoint | None = None) -> models.ChangeList:
        """Return what differs from the folder that the private workspace was made of, or from a checkpoint."""
        return await self._call("GET", "/changes", models.ChangeList, query={"path": list(paths) or None, "since": checkpoint_ref(since)}, again=True)

    async def diff(self, *paths: str, since: str | models.Checkpoint | None = None, format: str = "patch") -> bytes:
        """Return the changes as text: a ``patch``, a ``stat``, or the names with ``name-only``. Names of files are bytes, and so is this."""
        await self._opened()
        query = {"path": list(paths) or None, "since": checkpoint_ref(since), "format": format}
        answer = await self._t.request("GET", self._path + "/changes", self._headers, query=query, again=True, read=self._t._timeout)
        return await self._t.read(answer, None)

    async def apply(
        self, *paths: str, dry_run: bool = False, partial: bool = False, digest: str | None = None,
        allow_risks: list[str] | None = None, allow_paths: list[str] | None = None,
    ) -> models.AppliedChanges:
        """Do to the folder of the daemon's machine what the workspace changed. For admins.

        What is refused or conflicts is in ``plan``, and ``problem`` says so; nothing is done then without
        ``partial``. With the ``digest`` of a plan that was shown another one is refused. ``allow_risks`` and
        ``allow_paths`` consent to what makes programs of that machine run code.
        """
        body = {
            "paths": list(paths) or None, "dryRun": dry_run or None, "partial": partial or None, "digest": digest, "allowRisks": allow_risks,
            "allowPaths": allow_paths,
        }
        return await self._call("POST", "/apply", models.AppliedChanges, json={k: v for k, v in body.items() if v is not None})

    async def discard(self, *paths: str) -> list[models.WorkspaceChange]:
        """Give up the changes of the workspace, all of them or those of these paths, and return them."""
        return (await self._call("POST", "/discard", models.DiscardedChanges, json={"paths": list(paths)} if paths else {})).items

    async def undo(self, id: str | None = None, *, partial: bool = False) -> models.UndoneChanges:
        """Take back the last ``apply``, or the one with that id. For admins."""
        body = {"id": id, "partial": partial or None}
        return await self._call("POST", "/undo", models.UndoneChanges, json={k: v for k, v in body.items() if v is not None})

    async def stage_media(self, *refs: str) -> models.StagedMedia:
        """Copy files of the daemon's machine, or of another one, into the workspace."""
        return await self._call("POST", "/media", models.StagedMedia, json={"refs": list(refs)})


async def watched(
    sb: AsyncSandbox, path: str, body: dict[str, Any], on_stdout: Callable[[str], Any] | None, on_stderr: Callable[[str], Any] | None,
) -> Result:
    """Run something that is answered with events, and pass on what it writes."""
    kept = (bytearray(), bytearray())
    texts = (Decoder(), Decoder())
    calls = (on_stdout, on_stderr)
    events = sb._t.events("POST", path, sb._headers, json=body)
    try:
        async for e in events:
            if e.name in ("stdout", "stderr"):
                i = 0 if e.name == "stdout" else 1
                data = output_bytes(e.data)
                kept[i].extend(data)
                if text := texts[i].feed(data):
                    await called(calls[i], text)
            elif e.name == "again":
                for k in kept:
                    k.clear()
                texts = (Decoder(), Decoder())
            elif e.name == "exit":
                for i in (0, 1):
                    if text := texts[i].end():
                        await called(calls[i], text)
                return Result(models.Exit.model_validate_json(e.data), bytes(kept[0]), bytes(kept[1]))
    finally:
        await events.aclose()
    raise AssertionError("unreachable")


def whole(value: float | None, field: str) -> int | None:
    """Return seconds, rounded up."""
    return None if value is None else -int(-seconds(value, field) // 1)


def rules(network: Mapping[str, Any] | list[str]) -> dict[str, Any]:
    """Return network rules: a list are the hosts that can be reached."""
    if isinstance(network, str):
        raise ValidationError("the network rules are a str", field="network", hint="pass a list of hosts")
    if not isinstance(network, Mapping):
        return {"allowedDomains": list(network)}
    names = {"allowed": "allowedDomains", "denied": "deniedDomains", "allowed_domains": "allowedDomains", "denied_domains": "deniedDomains"}
    return {names.get(k, k): v for k, v in network.items()}
