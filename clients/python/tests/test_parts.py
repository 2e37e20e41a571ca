from __future__ import annotations

import asyncio
import http.client
import os

import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bulkhead_sandbox import (
    AsyncSandbox, CapabilityBlockedError, Client, NotFoundError, Sandbox, SandboxError, ToolDeniedError, UnavailableError, ValidationError,
)

SERVER = """
import socket, threading
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen(); print("ready", flush=True)
def serve(c):
    data = b""
    while piece := c.recv(65536): data += piece
    c.sendall(b"got " + data[::-1]); c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""


def test_watch(sb: Sandbox) -> None:
    sb.files.mkdir("w/sub", parents=True)
    events = sb.files.watch("w")
    assert next(events).type == "ready"
    sb.run("cd w; echo 1 >a; mv a b; rm b; echo 2 >sub/c")
    got: list[tuple[str | None, str | None, str | None]] = []
    for e in events:
        if e.type == "change":
            got.append((e.kind, e.name, e.to))
        if got and got[-1][:2] == ("write", "sub/c"):
            break
    assert got == [("create", "a", None), ("write", "a", None), ("rename", "a", "b"), ("remove", "b", None), ("create", "sub/c", None), ("write", "sub/c", None)]
    events.close()
    flat = sb.files.watch("w", recursive=False)
    next(flat)
    sb.run("cd w; echo 3 >sub/d; echo 4 >e")
    assert next(flat).name == "e"
    with pytest.raises(NotFoundError):
        next(sb.files.watch("nothing"))


def test_archives(sb: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a b" / "ü").mkdir(parents=True)
    (source / "a b" / "ü" / "file.txt").write_bytes(b"\x00\xff")
    (source / "empty").mkdir()
    (source / "link").symlink_to("a b")
    (source / "run.sh").write_text("#!/bin/sh\necho run")
    (source / "run.sh").chmod(0o755)
    report = sb.files.upload(source, "up")
    assert report.files == 2 and not report.left
    assert sb.run("./up/run.sh; readlink up/link").stdout == "run\na b\n"
    target = sb.files.download("up", tmp_path / "target")
    assert (target / "a b" / "ü" / "file.txt").read_bytes() == b"\x00\xff" and (target / "empty").is_dir() and os.readlink(target / "link") == "a b"
    assert os.access(target / "run.sh", os.X_OK)
    single = sb.files.upload(source / "run.sh", "one")
    assert single.files == 1 and sb.files.exists("one/run.sh")
    sb.files.download("one/run.sh", tmp_path / "file")
    assert (tmp_path / "file" / "run.sh").read_text().startswith("#!")
    (tmp_path / "one.tar").write_bytes(b"".join(sb.files.download_archive("one")))
    with tarfile.open(tmp_path / "one.tar") as tar:
        assert [n.removeprefix("./") for n in tar.getnames() if n != "."] == ["run.sh"]
    with pytest.raises(NotFoundError) as e:
        sb.files.upload(tmp_path / "missing", "x")
    assert e.value.field == "local"
    with pytest.raises(NotFoundError):
        sb.files.download("missing", tmp_path / "x")
    # What code inside makes of links does not reach this machine's files.
    sb.run("mkdir bad; ln -s /etc bad/out; ln -s ../../../.. bad/up")
    sb.files.download("bad", tmp_path / "bad")
    assert not (tmp_path / "bad" / "out").exists() and not (tmp_path / "bad" / "up").exists()
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        info = tarfile.TarInfo("../evil")
        tar.addfile(info)
    with pytest.raises(SandboxError):
        sb.files.upload_archive((tmp_path / "evil.tar").read_bytes(), "up")


def test_ports(sb: Sandbox) -> None:
    sb.files.write("server.py", SERVER)
    p = sb.start(["python3", "server.py"])
    next(p.stream())
    assert 8000 in {q.port for q in sb.ports.list()}
    with sb.ports.connect(8000) as c:
        c.send(b"abc")
        c.send_eof()
        assert b"".join(c) == b"got cba" and c.receive() == b""
    big = os.urandom(1 << 20)
    with sb.ports.connect(8000) as c:
        threading.Thread(target=lambda: (c.send(big), c.send_eof())).start()
        assert b"".join(c) == b"got " + big[::-1]
    with pytest.raises(UnavailableError):
        sb.ports.connect(8001)
    for wrong in (0, 65536, -1, True):
        with pytest.raises(ValidationError):
            sb.ports.connect(wrong)
    share = sb.ports.share(8000, 60)
    assert share.secret and share.share.port == 8000 and share.url.startswith("http")
    assert [s.id for s in sb.ports.shares()] == [share.share.id]
    sb.ports.revoke(share.share.id)
    assert sb.ports.shares() == []
    p.kill()


def test_port_by_path(daemon, sb: Sandbox, client: Client) -> None:  # noqa: ANN001
    sb.files.write("www/index.html", "page ☃") if sb.files.exists("www") else (sb.files.mkdir("www"), sb.files.write("www/index.html", "page ☃"))
    p = sb.start("cd www; exec python3 -u -m http.server 8080 --bind 127.0.0.1 2>&1")
    for _ in range(200):
        if 8080 in {q.port for q in sb.ports.list()}:
            break
        time.sleep(0.05)
    token = client.tokens.create("admin", ttl=60).secret
    with Sandbox.connect(sb.name, url=daemon.tcp, token=token) as over:
        url = over.ports.url(8080, "/index.html")
        assert url.startswith("http://127.0.0.1:") and over.ports.headers["Authorization"] == f"Bearer {token}"
        host, _, path = url.removeprefix("http://").partition("/")
        c = http.client.HTTPConnection(host, timeout=20)
        c.request("GET", "/" + path, headers=over.ports.headers)
        assert c.getresponse().read().decode() == "page ☃"
        c.close()
    p.kill()


def test_network(client: Client) -> None:
    with Sandbox(client=client, network=["example.com"]) as sb:
        assert sb.network.set({"allowed_domains": ["*.example.org"], "denied_domains": ["x.example.org"]}).name == sb.name
        sb.network.set([])
        with pytest.raises(CapabilityBlockedError) as e:
            sb.network.set(["elsewhere.test"])
        assert e.value.field == "network.allowedDomains[0]" or "allowedDomains" in (e.value.field or "")
        with pytest.raises(ValidationError):
            sb.network.set("example.com")  # type: ignore[arg-type]
    with pytest.raises(CapabilityBlockedError):
        Sandbox(client=client, network=["elsewhere.test"])


def test_secrets(home: Path, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program inside sees a stand-in, and never the secret."""
    from conftest import Daemon

    monkeypatch.setenv("API_KEY", "the-real-secret-value")
    d = Daemon(home / "secrets", settings)
    with Sandbox(url=d.url, secrets={"API_KEY": ["example.com"]}, settings={"network": {"allowedDomains": ["example.com"]}}) as sb:
        seen = sb.run("echo $API_KEY").stdout.strip()
        assert seen and seen != "the-real-secret-value"
    d.end()


def test_tools(sb: Sandbox) -> None:
    tools = {t.name: t for t in sb.tools.list()}
    assert {"exec", "read", "write"} <= set(tools) and tools["exec"].input_schema
    answer = sb.tools.call("exec", {"command": "echo tool; exit 3"})
    assert answer.failed and "tool" in answer.text
    assert not sb.tools.call("write", {"path": "t.txt", "content": "ü"}).failed and sb.files.read_text("t.txt") == "ü"
    with pytest.raises(ToolDeniedError):
        sb.tools.call("no-such-tool")
    with pytest.raises(SandboxError) as e:
        sb.tools.call("exec", {"nonsense": 1})
    assert e.value.code == "SCHEMA.VALIDATION_FAILED"


def test_pause(sb: Sandbox) -> None:
    assert sb.pause(force=True).status == "paused"
    assert sb.resume().status == "running"
    assert sb.extend(3600).name == sb.name


def test_code_is_refused_without_its_image(sb: Sandbox) -> None:
    with pytest.raises(SandboxError) as e:
        sb.run_code("1+1")
    assert e.value.code in ("SANDBOX.UNSUPPORTED", "PROVIDER.UNAVAILABLE")


def docker() -> bool:
    return bool(os.environ.get("SANDBOX_TEST_DOCKER"))


@pytest.mark.skipif(not docker(), reason="$SANDBOX_TEST_DOCKER is not set")
def test_code(home: Path) -> None:
    from conftest import Daemon

    settings = home / "code.json"
    settings.write_text('{"agents":{"defaults":{"sandbox":{"provider":"docker"}}},"daemon":{"create":{"images":["sandbox-code:bookworm-slim"]}}}')
    d = Daemon(home / "code", settings)
    try:
        with Sandbox(url=d.url, image="sandbox-code:bookworm-slim") as sb:
            assert sb.run_code("x = 41; print('hi')").stdout == "hi\n"
            events = []
            run = sb.run_code("print('a'); x + 1", on_event=events.append)
            assert run.stdout == "a\n" and run.results[0].text == "42" and {e.type for e in events} >= {"stdout", "result"}
            failed = sb.run_code("1/0")
            assert failed.error is not None and failed.error.name == "ZeroDivisionError"
            context = sb.contexts.create("javascript")
            assert sb.run_code("let y = 2; y * 4", context=context).results[0].text == "8"
            assert context.id in {c.id for c in sb.contexts.list()}
            sb.contexts.restart(context.id)
            sb.contexts.delete(context.id)
            assert sb.run_code("echo $((2*3))", language="bash").stdout == "6\n"
            assert sb.run_code("import time; time.sleep(60)", timeout=1).timed_out
    finally:
        d.end()


@pytest.mark.skipif(not docker(), reason="$SANDBOX_TEST_DOCKER is not set")
def test_browser(home: Path) -> None:
    from conftest import Daemon

    settings = home / "browser.json"
    settings.write_text('{"agents":{"defaults":{"sandbox":{"provider":"docker","browser":{"enabled":true}}}}}')
    d = Daemon(home / "browser", settings)
    try:
        with Sandbox(url=d.url) as sb:
            sb.files.write("page.html", "<title>T</title><p id=p>text ☃</p><input id=i><a href='page.html'>link</a>")
            assert sb.browser.start().status
            assert sb.browser.navigate("page.html").title == "T"
            assert "text ☃" in (sb.browser.extract(["text"]).text or "")
            sb.browser.type("#i", "typed")
            sb.browser.wait("#i")
            assert sb.browser.screenshot(width=320, height=200).startswith(b"\x89PNG")
            assert sb.browser.pdf().startswith(b"%PDF")
            assert sb.browser.list()
            with pytest.raises(SandboxError):
                sb.browser.click("#nothing")
            sb.browser.stop(force=True)
    finally:
        d.end()


def test_async_parts(url: str) -> None:
    async def go() -> None:
        async with AsyncSandbox(url=url) as sb:
            await sb.files.mkdir("w")
            watch = sb.files.watch("w")
            assert (await watch.__anext__()).type == "ready"
            await sb.files.write("w/x", b"1")
            assert (await watch.__anext__()).name
            await watch.aclose()
            await sb.files.write("server.py", SERVER)
            p = await sb.start(["python3", "server.py"])
            async for _ in p.stream():
                break
            async with await sb.ports.connect(8000) as c:
                await c.send(b"xy")
                await c.send_eof()
                assert b"".join([piece async for piece in c]) == b"got yx"
            assert {t.name for t in await sb.tools.list()} >= {"exec"}
            assert (await sb.tools.call("exec", {"command": "echo 1"})).text.strip().startswith("1")

    asyncio.run(go())




@pytest.mark.parametrize(("name", "link"), [("../evil", ""), ("/tmp/evil", ""), ("l", "/etc/passwd"), ("l", "../../up"), ("d/../../evil", "")])
def test_hostile_archives(tmp_path: Path, name: str, link: str) -> None:
    """An archive writes nothing outside of the folder that it is unpacked into."""
    from bulkhead_sandbox._archive import unpack

    folder = tmp_path / "folder"
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo(name)
        if link:
            info.type, info.linkname = tarfile.SYMTYPE, link
        tar.addfile(info)
    try:
        unpack(tmp_path / "a.tar", folder)
    except tarfile.TarError:
        pass
    assert not (tmp_path / "evil").exists() and not Path("/tmp/evil").exists()
    assert not any(p.is_symlink() for p in tmp_path.rglob("*"))


def private(folder: Path) -> dict[str, Any]:
    """Return what makes a sandbox work in a private view of a folder with two files."""
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("kept\n")
    return {"workspace": folder, "settings": {"workspaceAccess": "private"}}


def test_changes(client: Client, tmp_path: Path) -> None:
    with Sandbox(client=client, **private(tmp_path)) as one:
        one.run("echo two >a.txt; echo new >c.txt; mkdir .vscode; echo {} >.vscode/tasks.json")
        assert {c.path for c in one.changes().items} >= {"a.txt", "c.txt"}
        assert [c.path for c in one.changes("a.txt").items] == ["a.txt"]
        assert b"-one\n+two\n" in one.diff("a.txt") and b"a.txt" in one.diff(format="name-only")
        since = one.checkpoint()
        one.run("echo three >c.txt")
        assert [c.path for c in one.changes(since=since).items] == ["c.txt"]
        plan = one.apply(dry_run=True)
        assert not plan.applied and (tmp_path / "a.txt").read_text() == "one\n"
        refused = one.apply()
        assert not refused.applied and refused.problem is not None and refused.problem.code == "SANDBOX.CAPABILITY_BLOCKED"
        assert [c.path for c in one.discard("c.txt")] == ["c.txt"]
        done = one.apply(allow_risks=["editor"])
        assert done.applied and done.id and (tmp_path / "a.txt").read_text() == "two\n" and (tmp_path / ".vscode" / "tasks.json").exists()
        assert not (tmp_path / "c.txt").exists() and (tmp_path / "b.txt").read_text() == "kept\n"
        undone = one.undo(done.id)
        assert undone.problem is None and (tmp_path / "a.txt").read_text() == "one\n" and not (tmp_path / ".vscode").exists()


def test_changes_async(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncSandbox(url=url, **private(tmp_path)) as one:
            await one.run("echo two >a.txt")
            assert [c.path for c in (await one.changes()).items] == ["a.txt"] and b"+two" in await one.diff()
            assert (await one.apply("a.txt")).applied and (tmp_path / "a.txt").read_text() == "two\n"
            await one.undo()
            assert (tmp_path / "a.txt").read_text() == "one\n"
            assert [c.path for c in await one.discard()] == ["a.txt"]

    asyncio.run(work())
