from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bulkhead_sandbox import (
    AsyncSandbox, Client, Exit, NotFoundError, Sandbox, Stderr, Stdout, TimedOutError, UnavailableError, ValidationError,
)


def until(what: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come to be"
        time.sleep(0.02)


class Cutter:
    """Passes on connections to a unix socket, and cuts them after so many bytes of answers."""

    def __init__(self, folder: Path, behind: str) -> None:
        self.path = str(folder / "cut.sock")
        self.url = "unix:" + self.path
        self.behind = behind
        self.after = 0  # 0 never cuts
        self.cuts = 0
        self.connections = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            outer = socket.socket(socket.AF_UNIX)
            outer.connect(self.behind)
            threading.Thread(target=self._pass, args=(inner, outer, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(outer, inner, True), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket, answers: bool) -> None:
        passed = 0
        try:
            while data := a.recv(4096):
                if answers and self.after and passed + len(data) > self.after:
                    b.sendall(data[: self.after - passed])
                    self.cuts += 1
                    break
                b.sendall(data)
                passed += len(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def close(self) -> None:
        self._socket.close()
        Path(self.path).unlink()


@pytest.fixture
def cutter(home: Path, url: str) -> Iterator[Cutter]:
    c = Cutter(home, url.removeprefix("unix:"))
    yield c
    c.close()


def test_stream(sb: Sandbox) -> None:
    events = list(sb.stream("echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c; exit 3"))
    assert events[:-1] == [Stdout(b"a\n"), Stderr(b"b\n"), Stdout(b"c\n")]
    assert isinstance(events[-1], Exit) and events[-1].exit_code == 3
    assert b"".join(e.data for e in sb.stream(["cat"], stdin=b"\xff\x00") if isinstance(e, Stdout)) == b"\xff\x00"
    assert [type(e) for e in sb.stream("true")] == [Exit]
    with pytest.raises(NotFoundError):
        list(Sandbox.connect(sb.name, client=sb.client).process("nothing").stream())


def test_stream_left_early(sb: Sandbox, client: Client) -> None:
    with sb.stream("echo begun; sleep 300") as s:
        for e in s:
            assert e == Stdout(b"begun\n")
            break
        assert s.process is not None
        id = s.process.id
    until(lambda: sb.process(id).info().state == "ended")
    s = sb.stream("echo begun; sleep 300")
    next(s)
    id = s.process.id if s.process else ""
    del s
    gc.collect()
    assert busy(client) == 0, "a stream that is left without close keeps its connection"
    sb.process(id).kill()
    s = sb.stream("echo begun; sleep 300", background=True)
    next(s)
    id = s.process.id if s.process else ""
    s.close()
    assert sb.process(id).info().state == "running"
    sb.process(id).kill()
    assert list(s) == []


def busy(client: Client) -> int:
    pool = client._transport._pool
    assert pool is not None
    return len([c for c in pool.connections if not c.is_idle()])


@pytest.mark.parametrize("after", [2000, 3000, 7000])
def test_stream_resumes(cutter: Cutter, sb: Sandbox, after: int) -> None:
    """What broken connections have delivered comes once, and nothing is left out."""
    with Sandbox.connect(sb.name, url=cutter.url) as cut:
        cutter.after = after
        got = list(cut.stream("for i in $(seq 1 300); do echo line-$i; [ $((i % 7)) = 0 ] && echo err-$i >&2; sleep 0.002; done; exit 5"))
        cutter.after = 0
    assert cutter.cuts > 0, "no connection was cut"
    assert isinstance(got[-1], Exit) and got[-1].exit_code == 5
    assert b"".join(e.data for e in got if isinstance(e, Stdout)).decode().split() == [f"line-{i}" for i in range(1, 301)]
    assert b"".join(e.data for e in got if isinstance(e, Stderr)).decode().split() == [f"err-{i}" for i in range(7, 301, 7)]


def test_run_that_is_cut_is_an_error(cutter: Cutter, sb: Sandbox) -> None:
    with Sandbox.connect(sb.name, url=cutter.url) as cut:
        cutter.after = 60
        for call in (lambda: cut.run("echo 1", on_stdout=print), lambda: cut.run("echo 1"), lambda: cut.files.list(), lambda: list(cut.files.read_stream(".profile"))):
            with pytest.raises(UnavailableError):
                call()
        cutter.after = 0
        assert cut.run("echo on").stdout == "on\n"


def test_cut_file_is_an_error(cutter: Cutter, sb: Sandbox) -> None:
    sb.files.write("big", bytes(1 << 20))
    with Sandbox.connect(sb.name, url=cutter.url) as cut:
        cutter.after = 300_000
        with pytest.raises(UnavailableError):
            cut.files.read("big")
        with pytest.raises(UnavailableError):
            for _ in cut.files.read_stream("big"):
                pass


def test_process(sb: Sandbox) -> None:
    p = sb.start("while read x; do echo got $x; done; echo end >&2; exit 7", tag="loop")
    assert p.id and p.tag == "loop" and sb.process("loop").id == p.id and sb.process(p.id).id == p.id
    if p.pid:
        assert sb.process(p.pid).id == p.id
    p.write("a ☃\n")
    s = iter(p)
    assert next(s) == Stdout("got a ☃\n".encode())
    p.write(b"b\n")
    p.close_stdin()
    assert b"".join(e.data for e in s if isinstance(e, Stdout)) == b"got b\n"
    heard: list[str] = []
    r = p.wait(on_stdout=heard.append)
    assert (r.exit_code, r.stdout, r.stderr) == (7, "got a ☃\ngot b\n", "end\n") and "".join(heard) == r.stdout
    assert [e for e in p.stream(from_=-1) if not isinstance(e, Exit)] == []
    assert p.id in {q.id for q in sb.processes()} and p.info().state == "ended"
    big = b"x" * (1 << 20) + b"\n"
    p = sb.start(["wc", "-c"])
    p.write(big)
    p.close_stdin()
    assert p.wait().stdout.strip() == str(len(big))
    given = sb.start(["cat"], stdin=b"\x00all")
    assert given.wait().stdout_bytes == b"\x00all"
    assert sb.start(["cat"], stdin=False).wait().stdout == ""


def test_process_signals(sb: Sandbox) -> None:
    p = sb.start(["sh", "-c", "trap 'echo term; exit 3' TERM; echo ready; while :; do sleep 0.05; done"])
    next(p.stream())
    p.signal("TERM")
    assert p.wait().exit_code == 3
    p = sb.start(["sleep", "300"])
    assert p.kill().state == "ended" and p.wait().signal == "KILL"
    with pytest.raises(ValidationError):
        sb.start(["sleep", "300"], tag="12")
    p = sb.start(["sh"], tty=(24, 80))
    p.resize(30, 100)
    p.write("stty size; exit\n")
    assert "30 100" in p.wait().stdout


def test_process_from_another_client(sb: Sandbox, url: str) -> None:
    p = sb.start("read x; echo $x", tag="shared")
    with Sandbox.connect(sb.name, url=url) as other:
        other.process("shared").write("1\n")
        assert other.process("shared").wait().stdout == "1\n"
    assert p.wait().exit_code == 0


def test_shell(sb: Sandbox) -> None:
    with sb.shell(env={"START": "1"}) as sh:
        sh.run("cd /tmp; X=2; f() { echo f$X; }")
        r = sh.run("pwd; echo $START$X; f; false")
        assert (r.stdout, r.exit_code, r.restarted) == ("/tmp\n12\nf2\n", 1, False)
        lines: list[str] = []
        assert sh.run("echo a; echo b >&2", on_stdout=lines.append).stderr == "b\n" and lines == ["a\n"]
        assert sh.id in {s.id for s in sb.shells()}
    assert sh.id not in {s.id for s in sb.shells()}
    with pytest.raises(NotFoundError):
        sh.run("true")
    sh.close()


def test_terminal(sb: Sandbox) -> None:
    with sb.terminal(30, 100) as t:
        t.write("stty size\n")
        assert "30 100" in t.read_until("30 100")
        t.resize(40, 120)
        t.write("stty size\n")
        t.read_until("40 120")
        t.write("printf '\\342\\230\\203'; exit 4\n")
        out = b"".join(t)
        assert "☃".encode() in out and t.exit_code == 4
        assert t.read() == b""
    with sb.terminal(command=["sh", "-c", "read x; echo got-$x"]) as t:
        t.write("1\n")
        t.read_until("got-1")
    with sb.terminal(command="exec cat") as t:
        with pytest.raises(TimedOutError):
            t.read(timeout=0.2)
        t.signal_group("INT")
        assert b"" == b"".join(t).replace(b"^C", b"").strip() and t.signal == "INT"
    kept = sb.terminal(keep=True)
    assert kept.id
    kept.write("A=kept; echo $A-1\n")
    kept.read_until("kept-1")
    kept.close()
    assert kept.id in {t.id for t in sb.terminals()}
    with sb.terminal(id=kept.id) as t:
        t.write("echo $A-2\n")
        t.read_until("kept-2")
    sb.end_terminal(kept.id)
    until(lambda: all(t.state != "running" for t in sb.terminals() if t.id == kept.id))
    with pytest.raises(NotFoundError):
        sb.terminal(id="nothing")


def test_daemon_that_is_killed(home: Path, settings: Path) -> None:
    from conftest import Daemon

    d = Daemon(home / "killed", settings)
    sb = Sandbox(url=d.url)
    errors: list[BaseException] = []

    def call(fn: Callable[[], object]) -> None:
        try:
            fn()
        except BaseException as e:
            errors.append(e)

    calls = [lambda: sb.run("sleep 60"), lambda: list(sb.stream("sleep 60")), lambda: list(sb.files.watch()), lambda: sb.terminal().read_until("never")]
    threads = [threading.Thread(target=call, args=(c,)) for c in calls]
    for t in threads:
        t.start()
    until(lambda: sb.run("true").ok and len(sb.processes()) >= 1)
    time.sleep(0.3)
    d.end("KILL")
    for t in threads:
        t.join(30)
        assert not t.is_alive(), "a call does not notice that the daemon has died"
    assert [type(e) for e in errors] == [UnavailableError] * 4, errors
    again = Daemon(home / "killed", settings)
    assert sb.run("echo back").stdout == "back\n"
    sb.close()
    again.end()


def test_async_streams(url: str) -> None:
    async def go() -> None:
        async with AsyncSandbox(url=url) as sb:
            events = [e async for e in sb.stream("echo a; exit 2")]
            assert events[0] == Stdout(b"a\n") and isinstance(events[-1], Exit) and events[-1].exit_code == 2
            p = await sb.start("read x; echo $x")

            async def feed() -> None:
                await asyncio.sleep(0.1)
                await p.write("async\n")

            r, _ = await asyncio.gather(p.wait(), feed())
            assert r.stdout == "async\n"
            async with sb.stream("echo begun; sleep 300") as s:
                async for _ in s:
                    break
            assert s.process is not None and (await (await sb.process(s.process.id)).info()).state == "ended"
            async for _ in sb.stream("echo begun; sleep 300"):
                break
            gc.collect()
            await asyncio.sleep(0.2)
            pool = sb.client._transport._pool
            assert pool is not None and [c for c in pool.connections if not c.is_idle()] == []

            async def hang() -> None:
                async for _ in sb.stream("sleep 300"):
                    pass

            task = asyncio.ensure_future(hang())
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.1)
            assert [c for c in pool.connections if not c.is_idle()] == []
            async with await sb.terminal() as t:
                await t.write("echo $((40+2))\n")
                assert "42" in await t.read_until("42")
            async with await sb.shell() as sh:
                assert (await sh.run("echo s")).stdout == "s\n"

    asyncio.run(go())


def test_silent_stream_is_cut(sb: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that does not even report that it is there counts as gone, and a quiet command does not."""
    from bulkhead_sandbox._sync import _http

    monkeypatch.setattr(_http, "SILENCE", 0.5)
    with pytest.raises(UnavailableError) as e:
        sb.run("echo a; sleep 30", on_stdout=print)
    assert "says nothing" in e.value.message
    monkeypatch.setattr(_http, "SILENCE", 60.0)
    assert sb.run("sleep 1; echo b", on_stdout=print).stdout == "b\n"


def test_output_that_is_not_kept_is_reported(sb: Sandbox) -> None:
    p = sb.start("head -c 3000000 /dev/zero | tr '\\0' x")
    until(lambda: p.info().state == "ended")
    r = p.wait()
    assert r.truncated and r.lost == 3000000 - len(r.stdout_bytes) > 0 and r.exit_code == 0
    small = sb.start("echo 1").wait()
    assert not small.truncated and small.lost == 0
