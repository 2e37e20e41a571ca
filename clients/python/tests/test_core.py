from __future__ import annotations

import asyncio
import io
import pickle
import threading
import uuid

import pytest

from bulkhead_sandbox import (
    AsyncClient, AsyncSandbox, BusyError, CapabilityBlockedError, Client, CommandError, NotFoundError, PermissionDeniedError, Sandbox, SandboxError,
    UnavailableError, ValidationError,
)
from bulkhead_sandbox._core import Events, parse_address
from bulkhead_sandbox.errors import error_for


def test_run(sb: Sandbox) -> None:
    r = sb.run("echo out; echo err >&2; exit 3")
    assert (r.exit_code, r.stdout, r.stderr, r.ok, r.timed_out) == (3, "out\n", "err\n", False, False)
    assert sb.run(["printf", "%s|", "a b", "$HOME", "*"]).stdout == "a b|$HOME|*|"
    assert sb.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    assert sb.run("echo $A-$B", env={"A": "1", "B": "zwei ☃"}).stdout == "1-zwei ☃\n"
    assert sb.run(["cat"], stdin="text ☃").stdout == "text ☃"
    every = bytes(range(256))
    assert sb.run(["cat"], stdin=every).stdout_bytes == every
    assert sb.run(["true"]).stdout_bytes == b""
    timed = sb.run("sleep 20", timeout=0.3)
    assert timed.timed_out and not timed.ok
    assert sb.run(["no-such-program"]).exit_code == 127


def test_check(sb: Sandbox) -> None:
    assert sb.run("true", check=True).ok
    with pytest.raises(CommandError) as e:
        sb.run("echo why >&2; exit 4", check=True)
    assert e.value.result.exit_code == 4 and e.value.code == "TOOL.EXECUTION_FAILED" and "why" in str(e.value)


def test_callbacks(sb: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    r = sb.run(["sh", "-c", r"printf '\342\230'; sleep 0.2; printf '\203\n'; echo e >&2; exit 2"], on_stdout=out.append, on_stderr=err.append)
    assert "".join(out) == "☃\n" and "\ufffd" not in "".join(out) and "".join(err) == "e\n"
    assert (r.exit_code, r.stdout, r.stderr) == (2, "☃\n", "e\n")


def test_sessions(client: Client) -> None:
    session = f"s-{uuid.uuid4().hex[:8]}"
    with Sandbox(session, client=client) as one:
        one.files.write("kept", b"1")
    with Sandbox(session, client=client) as two:
        assert two.name == one.name and two.session == session and two.files.read("kept") == b"1"
        again = Sandbox.connect(two.name, client=client)
        assert again.files.read("kept") == b"1" and again.session == session
        assert again.info().name == two.name
        two.remove(force=True, workspace=True)
    with pytest.raises(NotFoundError) as e:
        Sandbox.connect(two.name, client=client)
    assert e.value.code == "SANDBOX.NOT_FOUND" and e.value.status == 404
    with Sandbox(client=client, labels={"team": "red", "no": "1"}) as own:
        name = own.name
        assert [s.name for s in client.sandboxes({"team": "red", "no": "1"})] == [name]
        assert [s.name for s in client.sandboxes({"team": "red", "no": "2"})] == []
    with pytest.raises(NotFoundError):
        client.sandbox(name)
    with Sandbox(client=client) as gone:
        client.sandbox(gone.name).remove(force=True)
    gone.close()
    with Sandbox(client=client, keep=True) as kept:
        pass
    found = client.sandbox(kept.name)
    found.remove(force=True, workspace=True)


def test_options(client: Client) -> None:
    with Sandbox(client=client, env={"A": "1"}, metadata={"k": "ü"}, timeout=3600, settings={"limits": {"openFiles": 100, "timeout": "1s"}}) as sb:
        assert sb.run("echo $A; ulimit -n").stdout == "1\n100\n"
        assert sb.run("sleep 9").timed_out
        info = sb.info()
        assert info.metadata == {"k": "ü"} and info.expires_at is not None
        sb.set_timeout(7200)
        assert (sb.info().expires_at or info.expires_at) > info.expires_at
    with pytest.raises(CapabilityBlockedError) as e:
        Sandbox(client=client, image="nothing:1")
    assert e.value.field == "image" and e.value.hint
    with pytest.raises(SandboxError) as f:
        Sandbox(client=client, settings={"nonsense": 1})
    assert f.value.code == "SCHEMA.VALIDATION_FAILED"
    with pytest.raises(ValidationError):
        Sandbox("", client=client)
    with pytest.raises(ValidationError):
        Sandbox("x\ny", client=client)


def test_files(sb: Sandbox) -> None:
    f = sb.files
    for name in ("plain", "a b", "q?x=1", "h#ash", "p%41", "ünï☃", "back\\slash", "new\nline", "semi;colon", "a+b&c", ".hidden", "'q\""):
        made = f.write(name, name.encode())
        assert made.created and f.read(name) == name.encode() == f.read("/workspace/" + name), name
        assert f.stat(name).size == len(name.encode()) and f.exists(name)
    assert {e.name for e in f.list()} >= {"q?x=1", "p%41", "ünï☃", "new\nline"}
    assert not f.write("plain", "zwei ☃").created and f.read_text("plain") == "zwei ☃"
    with pytest.raises(BusyError) as e:
        f.write("plain", "x", exclusive=True)
    assert e.value.status == 412
    tag = f.stat("plain").etag
    f.write("plain", "3", etag=f.write("plain", "2").etag)
    with pytest.raises(BusyError):
        f.write("plain", "4", etag=tag)
    assert f.read("plain") == b"3"
    f.write("empty", b"")
    assert f.read("empty") == b"" and list(f.read_stream("empty")) == []
    big = bytes(range(256)) * (12 << 10)
    f.write("big", iter([big[:70000], b"", big[70000:]]))
    assert f.read("big") == big and b"".join(f.read_stream("big")) == big
    assert f.read("big", offset=1, length=3) == big[1:4] and f.read("big", offset=len(big) - 2) == big[-2:]
    f.write("file", io.BytesIO(b"of a file"))
    f.write("text", io.StringIO("of a text ☃"))
    assert f.read("file") == b"of a file" and f.read_text("text") == "of a text ☃"
    f.write("mode", b"", mode=0o600)
    assert f.stat("mode").mode.endswith("600")
    f.mkdir("d/e", parents=True)
    f.write("d/e/x.py", b"1")
    f.symlink("link", "d/e/x.py")
    assert f.stat("link").type == "symlink" and f.stat("link", follow=True).type == "file" and f.stat("link").target == "d/e/x.py"
    f.move("d/e/x.py", "d/y.py")
    assert not f.exists("d/e/x.py") and f.read("d/y.py") == b"1"
    assert f.glob("**/*.py").paths == ["/workspace/d/y.py"] or "d/y.py" in f.glob("**/*.py").paths[0]
    for i in range(7):
        f.write(f"many/{i}", b"") if f.exists("many") else (f.mkdir("many"), f.write(f"many/{i}", b""))
    assert [e.name for e in f.list("many", page=2)] == [str(i) for i in range(7)]
    with pytest.raises(SandboxError):
        f.remove("d")
    f.remove("d", recursive=True)
    assert not f.exists("d")


def test_file_errors(sb: Sandbox) -> None:
    with pytest.raises(NotFoundError) as e:
        sb.files.read("missing")
    assert (e.value.code, e.value.field, e.value.status) == ("SANDBOX.NOT_FOUND", "path", 404)
    with pytest.raises(CapabilityBlockedError):
        sb.files.read("/etc/../root/x")
    with pytest.raises(CapabilityBlockedError):
        sb.files.exists("../../elsewhere")
    with pytest.raises(NotFoundError):
        sb.files.read("a\x00b")
    for bad in ("", "\udcff"):
        with pytest.raises(ValidationError):
            sb.files.write(bad, b"")
    with pytest.raises(ValidationError):
        sb.run("echo \ud800")
    with pytest.raises(ValidationError):
        sb.run(b"true")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        sb.run("true", timeout=float("nan"))
    with pytest.raises(ValidationError):
        sb.files.write("x", 3)  # type: ignore[arg-type]


def test_failing_content_leaves_no_file(sb: Sandbox) -> None:
    def broken():  # noqa: ANN202
        yield b"half"
        raise KeyError("the source")

    with pytest.raises(KeyError):
        sb.files.write("half", broken())
    assert not sb.files.exists("half")
    assert sb.run("echo still").stdout == "still\n"


def test_threads(sb: Sandbox) -> None:
    wrong: list[str] = []

    def work(i: int) -> None:
        for k in range(5):
            text = f"{i}-{k}"
            sb.files.write(f"t{i}", text)
            if sb.files.read_text(f"t{i}") != text or sb.run(["echo", text]).stdout != text + "\n":
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_async(url: str) -> None:
    async def go() -> None:
        async with AsyncSandbox(url=url) as sb:
            assert (await sb.run("echo async")).stdout == "async\n"
            got: list[str] = []

            async def hear(text: str) -> None:
                await asyncio.sleep(0)
                got.append(text)

            await sb.run("echo a", on_stdout=hear)
            assert got == ["a\n"]

            async def content():  # noqa: ANN202
                yield b"1"
                yield b"2"

            await sb.files.write("f", content())
            assert await sb.files.read("f") == b"12"
            assert [p async for p in sb.files.read_stream("f")] == [b"12"]
            many = await asyncio.gather(*(sb.run(["echo", str(i)]) for i in range(20)))
            assert [r.stdout for r in many] == [f"{i}\n" for i in range(20)]
            with pytest.raises(NotFoundError):
                await sb.files.read("nothing")
        with pytest.raises(UnavailableError):
            await sb.run("true")
        made = await AsyncSandbox.create(url=url)
        assert (await AsyncSandbox.connect(made.name, url=url)).name == made.name
        await made.aclose()

    asyncio.run(go())


def test_async_cancellation_leaks_nothing(url: str) -> None:
    async def go() -> None:
        async with AsyncClient(url) as c, AsyncSandbox(client=c) as sb:
            for _ in range(5):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(sb.run("sleep 60"), 0.2)
            task = asyncio.ensure_future(sb.run("sleep 60", on_stdout=print))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            pool = c._transport._pool
            assert pool is not None and all(not conn.is_available() or conn.is_idle() for conn in pool.connections)
            assert len([conn for conn in pool.connections if not conn.is_idle()]) == 0
            for _ in range(100):
                if "sleep" not in (await sb.run("ps -eo args 2>/dev/null || true")).stdout.replace("ps -eo", ""):
                    break
                await asyncio.sleep(0.05)
            assert (await sb.run("echo on")).stdout == "on\n"

    asyncio.run(go())


def test_addresses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("", "unix:", "ftp://x", "http://", "tcp:", "localhost", "http://h/path", "http://u:p@h", "http://h:99999", "http://h\n"):
        with pytest.raises(ValidationError) as e:
            parse_address(wrong)
        assert e.value.field == "url"
    assert parse_address("tcp:127.0.0.1:80").text == "http://127.0.0.1:80"
    assert parse_address("http://[::1]:8").authority == b"[::1]:8"
    for token in ("abc\n", "a b", "ü", "a\r\nX: y"):
        with pytest.raises(ValidationError) as e:
            Client(url, token=token)
        assert e.value.field == "token"
    with pytest.raises(ValidationError):
        Client("http://example.com", token="t")
    monkeypatch.setenv("SANDBOX_SERVER", url)
    with Client() as c:
        assert c.health() and c.url == url
    monkeypatch.setenv("SANDBOX_SERVER", "unix:/nonexistent/s.sock")
    with Client() as c, pytest.raises(UnavailableError) as u:
        c.health()
    assert u.value.hint and u.value.retryable


def test_tokens(daemon, client: Client) -> None:  # noqa: ANN001
    with Client(daemon.tcp) as c, pytest.raises(PermissionDeniedError) as e:
        list(c.sandboxes())
    assert e.value.status == 401
    made = client.tokens.create("session", tenant="acme", session="only", ttl=60)
    with Client(daemon.tcp, token=made.secret) as c:
        with Sandbox("only", client=c) as sb:
            assert sb.run("echo token").stdout == "token\n"
        with pytest.raises(PermissionDeniedError) as e:
            Sandbox("other", client=c)
        assert e.value.status == 403
        client.tokens.revoke(made.id)
        with pytest.raises(PermissionDeniedError):
            c.sandbox(sb.name)
    assert made.secret not in str(e.value)


def test_client(client: Client, sb: Sandbox) -> None:
    assert client.health() and client.ready().checks is not None
    assert any(u.name == sb.name for u in client.usage())
    assert sb.usage().name == sb.name
    assert client.request("GET", "/v1/sandboxes/" + sb.name)["name"] == sb.name
    with pytest.raises(NotFoundError):
        client.request("GET", "/v1/nothing")
    assert client.violations(limit=1).violations is not None
    assert client.evidence(limit=1).evidence is not None
    other = client.for_(agent="other", session="o")
    with Sandbox("o", client=other) as o:
        assert o.info().agent == "other"
        o.remove(force=True, workspace=True)


def test_errors_are_complete() -> None:
    e = error_for(409, b'{"code":"SANDBOX.BUSY","detail":"why","field":"f","resource":"r","hint":"h","retryable":true,"status":409,"requestId":"i"}')
    assert isinstance(e, BusyError) and (e.code, e.message, e.field, e.resource, e.hint, e.remedy, e.retryable, e.status, e.request_id) == (
        "SANDBOX.BUSY", "why", "f", "r", "h", "h", True, 409, "i")
    assert str(e) == "SANDBOX.BUSY: f: why (h)"
    back = pickle.loads(pickle.dumps(e))
    assert type(back) is BusyError and back.__dict__ == e.__dict__ and str(back) == str(e)
    new = error_for(418, b'{"code":"SOME.NEW_CODE","detail":"d"}')
    assert type(new) is SandboxError and new.code == "SOME.NEW_CODE" and new.status == 418
    for body in (b"", b"<html>", b"[]", b"null", b'{"code":3}'):
        assert error_for(502, body).code == "PROVIDER.UNAVAILABLE" and error_for(401, body).code == "SANDBOX.PERMISSION_DENY"


def test_events_in_any_pieces() -> None:
    text = b": hello\r\n\r\nevent: stdout\r\nid: p.3\r\ndata: {\"text\":\r\ndata: \"a\"}\r\n\r\nid: p.4\nevent:none\n\nevent: exit\ndata:{}\n\nevent: half\ndata: x\n"
    whole = Events().feed(text)
    assert [(e.name, e.id, e.data) for e in whole] == [("stdout", "p.3", b'{"text":\n"a"}'), ("exit", "", b"{}")]
    for size in range(1, 9):
        r = Events()
        assert [e for at in range(0, len(text), size) for e in r.feed(text[at : at + size])] == whole
