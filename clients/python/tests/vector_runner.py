"""Runs the vectors of clients/vectors against the asynchronous SDK; the test makes the
synchronous runner of it as the synchronous SDK is made."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import tempfile
import uuid
from pathlib import Path
from typing import Any

from bulkhead_sandbox import (
    AsyncClient, AsyncCommandStream, AsyncConnection, AsyncProcess, AsyncSandbox, AsyncShell, Exit, Result, SandboxError, Stderr, Stdout, WatchEvent,
)

OPTIONS = {"env", "labels", "metadata", "network", "limits", "timeout", "on_timeout", "auto_resume", "image", "preset"}


class Failed(AssertionError):
    """A step does not come to what the vector says."""


def data_of(value: Any) -> Any:
    if isinstance(value, dict):
        if "base64" in value:
            return base64.b64decode(value["base64"])
        return value["repeat"] * value["times"]
    return value


def plain(value: Any) -> Any:
    """Return a value of the SDK as the vectors have it."""
    if isinstance(value, Result):
        d = plain(value.details)
        return {**d, "stdout": value.stdout_bytes, "stderr": value.stderr_bytes, "signal": value.signal}
    if isinstance(value, (AsyncProcess, AsyncShell)):
        return plain(value._info if isinstance(value, AsyncProcess) else value.info)
    if isinstance(value, AsyncSandbox):
        return {**plain(value._info), "name": value.name}
    if isinstance(value, WatchEvent):
        return {k: v for k, v in value.__dict__.items() if k != "details"} | plain(value.details)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def same(want: Any, got: Any, at: str) -> None:
    def fail() -> None:
        raise Failed(f"{at}: want {want!r}, got {got!r}")

    if isinstance(want, dict) and set(want) == {"base64"}:
        if (got or b"") != base64.b64decode(want["base64"]) and (not isinstance(got, str) or got.encode() != base64.b64decode(want["base64"])):
            fail()
    elif isinstance(want, dict) and set(want) == {"match"}:
        text = got.decode("utf-8", "replace") if isinstance(got, bytes) else got if isinstance(got, str) else "" if got is None else str(got)
        if not re.search(want["match"], text):
            fail()
    elif isinstance(want, dict) and set(want) == {"contains"}:
        for one in want["contains"]:
            for other in got or []:
                try:
                    same(one, other, at)
                    break
                except Failed:
                    continue
            else:
                raise Failed(f"{at}: nothing in {got!r} is {one!r}")
    elif isinstance(want, dict):
        if not isinstance(got, dict):
            fail()
        for key, value in want.items():
            same(value, got.get(key), f"{at}.{key}")
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            fail()
        for i, (w, g) in enumerate(zip(want, got)):
            same(w, g, f"{at}[{i}]")
    elif isinstance(want, str):
        if isinstance(got, bytes):
            if got != want.encode():
                fail()
        elif (got or "") != want:
            fail()
    elif isinstance(want, bool) or want is None:
        if bool(got) != bool(want) or want is None and got is not None:
            fail()
    elif want != (got or 0):
        fail()


def joined(events: list[Any]) -> list[Any]:
    out: list[Any] = []
    for e in events:
        if isinstance(e, (Stdout, Stderr)):
            name = "stdout" if isinstance(e, Stdout) else "stderr"
            if out and name in out[-1]:
                out[-1] = {name: out[-1][name] + e.data}
            else:
                out.append({name: e.data})
        elif isinstance(e, Exit):
            out.append(plain(e.details) | {"signal": e.signal})
    return out


class Follower:
    """A stream of which the steps take what they expect."""

    def __init__(self, stream: AsyncCommandStream) -> None:
        self.stream = stream
        self.left: list[Any] = []

    async def take(self, want: list[Any]) -> list[Any]:
        while not self._whole(want):
            self.left.append(await self.stream.__anext__())
        got = joined(self.left)
        n = len(want)
        self.left = []
        rest = got[n:]
        last = want[-1]
        for name, kind in (("stdout", Stdout), ("stderr", Stderr)):
            if name in last and isinstance(last[name], str) and len(got[n - 1].get(name, b"")) > len(last[name].encode()):
                size = len(last[name].encode())
                self.left.append(kind(got[n - 1][name][size:]))
                got[n - 1] = {name: got[n - 1][name][:size]}
        for e in rest:
            raise Failed(f"more has come: {e!r}")
        return got[:n]

    def _whole(self, want: list[Any]) -> bool:
        got = joined(self.left)
        if len(got) < len(want):
            return False
        last = want[-1]
        for name in ("stdout", "stderr"):
            if name in last:
                if isinstance(last[name], dict) and "base64" in last[name]:
                    return len(got[len(want) - 1].get(name, b"")) >= len(base64.b64decode(last[name]["base64"]))
                if isinstance(last[name], str):
                    return len(got[len(want) - 1].get(name, b"")) >= len(last[name].encode())
                return True
        return True


class Run:
    """The run of one case."""

    def __init__(self, client: AsyncClient, sb: AsyncSandbox, opened: list[AsyncSandbox]) -> None:
        self.client = client
        self.sb = sb
        self.saved: dict[str, Any] = {}
        self.opened = opened
        self.unique = uuid.uuid4().hex[:8]

    async def steps(self, steps: list[dict[str, Any]]) -> None:
        for i, step in enumerate(steps):
            at = f"step {i + 1} ({step['op']})"
            try:
                if "events" in step:
                    value, got = await self.events(step)
                    same(step["events"], got, at)
                else:
                    value = await self.do(step)
                    if "error" in step:
                        raise Failed(f"{at}: want the error {step['error']!r}, got {plain(value)!r}")
                    if "result" in step:
                        same(step["result"], plain(value), at)
            except SandboxError as e:
                if "error" not in step:
                    raise Failed(f"{at}: {e}") from e
                for key, want in step["error"].items():
                    if getattr(e, key) != want and (getattr(e, key) or "") != want:
                        raise Failed(f"{at}: {key}: want {want!r}, got {getattr(e, key)!r}: {e}") from e
                continue
            if "save" in step:
                self.saved[step["save"]] = value

    async def events(self, step: dict[str, Any]) -> tuple[Any, list[Any]]:
        on = self.saved.get(step.get("on", ""))
        if step["op"] == "stream":
            s = self.sandbox(step).stream(**self.command(step))
            return None, joined([e async for e in s])
        if step["op"] == "stream.next":
            return None, await on.take(step["events"])
        if step["op"] == "watch.next":
            got: list[Any] = []
            while len(got) < len(step["events"]):
                e = await on.__anext__()
                if e.type == "change":
                    got.append(plain(e))
            return None, got
        raise Failed(f"{step['op']} has no events")

    def sandbox(self, step: dict[str, Any]) -> AsyncSandbox:
        on = self.saved.get(step.get("on", ""))
        return on if isinstance(on, AsyncSandbox) else self.sb

    def command(self, step: dict[str, Any]) -> dict[str, Any]:
        w = dict(step.get("with", {}))
        if "stdin" in w and w["stdin"] is not True:
            w["stdin"] = data_of(w["stdin"])
        if "tty" in w:
            w["tty"] = (w["tty"]["rows"], w["tty"]["cols"])
        return w

    async def do(self, step: dict[str, Any]) -> Any:
        op, w = step["op"], step.get("with", {})
        on = self.saved.get(step.get("on", ""))
        sb = self.sandbox(step)
        f = sb.files
        if op == "run":
            return await sb.run(**self.command(step))
        if op == "stream":
            events = joined([e async for e in sb.stream(**self.command(step))])
            out = {**events[-1]}
            for name in ("stdout", "stderr"):
                out[name] = b"".join(e[name] for e in events if name in e and len(e) == 1)
            return out
        if op == "start":
            c = self.command(step)
            c.setdefault("stdin", False)
            return await sb.start(**c)
        if op == "processes":
            return await sb.processes()
        if op == "process":
            return await sb.process(w["ref"])
        if op == "process.info":
            return await on.info()
        if op == "process.write":
            return await on.write(data_of(w["data"])) or {}
        if op == "process.close_stdin":
            return await on.close_stdin() or {}
        if op == "process.signal":
            return await on.signal(w["signal"]) or {}
        if op == "process.resize":
            return await on.resize(w["tty"]["rows"], w["tty"]["cols"]) or {}
        if op == "process.kill":
            return await on.kill()
        if op == "process.wait":
            return await on.wait()
        if op == "process.stream":
            return Follower(await on.stream(from_=w.get("from", 0)).open())
        if op == "stream.close":
            return await on.stream.aclose() or {}
        if op == "shell":
            return await sb.shell()
        if op == "shell.run":
            return await on.run(w["line"], **{k: v for k, v in self.command(step).items() if k != "line"})
        if op == "shell.close":
            return await on.aclose() or {}
        if op == "files.read":
            return await f.read(w["path"])
        if op == "files.write":
            return await f.write(w["path"], data_of(w["data"]), exclusive=w.get("exclusive", False))
        if op == "files.list":
            return await f.list(w.get("path", "."))
        if op == "files.stat":
            return await f.stat(w["path"])
        if op == "files.exists":
            return await f.exists(w["path"])
        if op == "files.mkdir":
            return await f.mkdir(w["path"], w.get("parents", False))
        if op == "files.move":
            return await f.move(w["from"], w["to"], overwrite=w.get("overwrite"))
        if op == "files.symlink":
            return await f.symlink(w["path"], w["target"])
        if op == "files.remove":
            return await f.remove(w["path"], w.get("recursive", False)) or {}
        if op == "files.glob":
            return (await f.glob(w["pattern"], w.get("path"))).paths
        if op == "files.upload":
            with tempfile.TemporaryDirectory() as folder:
                for name, text in w["files"].items():
                    p = Path(folder, name)
                    p.parent.mkdir(parents=True, exist_ok=True)
                    p.write_bytes(data_of(text) if isinstance(text, dict) else text.encode())
                return await f.upload(folder, w.get("path"))
        if op == "files.download":
            with tempfile.TemporaryDirectory() as folder:
                await f.download(w["path"], folder)
                return {"files": {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}}
        if op == "files.watch":
            watch = f.watch(w.get("path"), w.get("recursive", True))
            while (await watch.__anext__()).type != "ready":
                pass
            return watch
        if op == "watch.close":
            return await on.aclose() or {}
        if op == "run_code":
            context = self.saved[w["context"]].id if "context" in w else None
            return await sb.run_code(w["code"], language=w.get("language"), context=context, timeout=w.get("timeout"))
        if op == "contexts.create":
            return await sb.contexts.create(w.get("language", "python"), w.get("cwd"))
        if op == "contexts.list":
            return await sb.contexts.list()
        if op in ("contexts.restart", "contexts.delete"):
            id = on.id if on is not None else w["ref"]
            return await (sb.contexts.restart(id) if op == "contexts.restart" else sb.contexts.delete(id)) or {}
        if op == "ports.list":
            return await sb.ports.list()
        if op == "ports.connect":
            async with await sb.ports.connect(w["port"]) as c:
                await c.send(self.bytes(data_of(w.get("data", ""))))
                await c.send_eof()
                return {"received": await whole(c)}
        if op == "ports.share":
            s = await sb.ports.share(w["port"], w.get("ttl"))
            return Share(s)
        if op == "ports.shares":
            return await sb.ports.shares()
        if op == "ports.revoke":
            return await sb.ports.revoke(on.id if on is not None else w["ref"]) or {}
        if op == "network.set":
            return await sb.network.set(w["network"])
        if op == "tools.list":
            return await sb.tools.list()
        if op == "tools.call":
            return await sb.tools.call(w["name"], w.get("input"))
        if op == "info":
            return await sb.info()
        if op == "pause":
            return await sb.pause()
        if op == "resume":
            return await sb.resume()
        if op == "recreate":
            return await sb.recreate(w.get("force", False))
        if op == "extend":
            return await sb.extend(w["seconds"])
        if op == "set_timeout":
            return await sb.set_timeout(w["seconds"])
        if op == "usage":
            return await sb.usage()
        if op == "remove":
            return await sb.remove() or {}
        if op == "checkpoint":
            return await sb.checkpoint(f"{w['name']}-{self.unique}" if "name" in w else None)
        if op == "checkpoints":
            return await sb.checkpoints()
        if op == "checkpoint.get":
            return await self.client.checkpoint(on.id)
        if op == "checkpoint.remove":
            return await self.client.remove_checkpoint(on) or {}
        if op == "rollback":
            return await sb.rollback(self.saved.get(w["checkpoint"], w["checkpoint"]))
        if op == "fork":
            sessions = [f"{s}-{self.unique}" for s in w["sessions"]] if "sessions" in w else None
            from_checkpoint = self.saved.get(w["checkpoint"], w["checkpoint"]) if "checkpoint" in w else None
            made = await sb.fork(w.get("count"), sessions=sessions, from_checkpoint=from_checkpoint)
            for i, one in enumerate(made):
                if one.problem is None:
                    box = await self.client.sandbox(one.name or "")
                    self.opened.append(box)
                    if i < len(w.get("as", [])):
                        self.saved[w["as"][i]] = box
            return made
        if op == "open":
            options = {k: v for k, v in w.items() if k in OPTIONS}
            if "checkpoint" in w:
                options["from_checkpoint"] = self.saved.get(w["checkpoint"], w["checkpoint"])
            session = f"{w['session']}-{self.unique}" if "session" in w else None
            made = await AsyncSandbox.create(session, client=self.client, **options)
            self.opened.append(made)
            return made
        if op == "connect":
            return await AsyncSandbox.connect(on.name if on is not None else w["name"], client=self.client)
        if op == "close":
            return await on.aclose() or {}
        if op == "sandboxes":
            return [s async for s in self.client.sandboxes(w.get("labels"))]
        if op == "health":
            return await self.client.health()
        raise Failed(f"there is no operation {op}")

    def bytes(self, data: Any) -> bytes:
        return data.encode() if isinstance(data, str) else data


class Share:
    """A share with its link and its secret, as the vectors have it."""

    def __init__(self, s: Any) -> None:
        self.id = s.share.id
        self._s = s

    def model_dump(self) -> dict[str, Any]:
        return {**plain(self._s.share), "url": self._s.url, "secret": self._s.secret}


async def whole(c: AsyncConnection) -> bytes:
    out = b""
    while piece := await c.receive():
        out += piece
    return out


async def run_case(client: AsyncClient, shared: AsyncSandbox, case: dict[str, Any]) -> None:
    opened: list[AsyncSandbox] = []
    sb = shared
    if "sandbox" in case:
        sb = await AsyncSandbox.create(f"vector-{uuid.uuid4().hex[:12]}", client=client, **case["sandbox"])
        opened.append(sb)
    try:
        await Run(client, sb, opened).steps(case["steps"])
    finally:
        for one in opened:
            try:
                await one.remove(force=True, workspace=True)
            except SandboxError:
                pass
