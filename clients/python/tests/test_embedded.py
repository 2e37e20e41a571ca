"""The daemon that a program starts for itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bulkhead_sandbox import AsyncSandbox, Client, Sandbox, UnavailableError

pytestmark = pytest.mark.usefixtures("own_environment")

PROGRAM = """
import os, sys, time
from bulkhead_sandbox import Sandbox
sb = Sandbox(sys.argv[1])
print(sb.run("echo from $$ inside").stdout.split()[0], sb._t._daemon._process.pid, flush=True)
sys.stdin.read()
print(sb.run("echo still").stdout, flush=True)
"""


def program(session: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, session], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(what: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come to be"
        time.sleep(0.05)


def said(p: subprocess.Popen[str]) -> int:
    assert p.stdout is not None
    line = p.stdout.readline().split()
    assert line and line[0] == "from", line
    return int(line[1])


def test_three_lines() -> None:
    with Sandbox("chat-42") as sb:
        assert sb.run("python3 -c 'print(1)'").stdout == "1\n"
        pid = sb._t._daemon._process.pid  # type: ignore[union-attr]
        with Sandbox() as other:
            assert other._t._daemon is sb._t._daemon, "clients of a process share its daemon"
        assert alive(pid)
    until(lambda: not alive(pid))
    with Sandbox("chat-42") as sb:
        assert sb.run("echo again").stdout == "again\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_it_ends_with_its_program(how: signal.Signals | None) -> None:
    p = program("dies")
    pid = said(p)
    assert alive(pid)
    if how is None:
        p.communicate("")
    else:
        p.send_signal(how)
        p.wait()
    until(lambda: not alive(pid))
    if p.stdout is not None:
        p.stdout.close()


def test_two_programs_at_once() -> None:
    """They share one daemon, and each goes on when the other has ended."""
    ps = [program(f"two-{i}") for i in range(3)]
    pids = [said(p) for p in ps]
    ps[0].kill()
    ps[0].wait()
    began = time.monotonic()
    out, _ = ps[1].communicate("")
    assert out.strip() == "still"
    assert time.monotonic() - began < 20, "a program waits for the daemon that it leaves to others"
    out, _ = ps[2].communicate("")
    assert out.strip() == "still"
    until(lambda: not any(alive(p) for p in pids))


def test_it_is_started_again() -> None:
    with Sandbox("again") as sb:
        sb.files.write("kept", "1")
        daemon = sb._t._daemon
        assert daemon is not None
        os.kill(daemon._process.pid, signal.SIGKILL)
        until(lambda: daemon.ended)
        assert sb.files.read_text("kept") == "1" and sb.run("echo on").stdout == "on\n"


def test_fork() -> None:
    """A child of fork has connections of its own, and leaves the parent's alone."""
    with Sandbox("fork") as sb:
        assert sb.run("echo parent").stdout == "parent\n"
        daemon = sb._t._daemon
        assert daemon is not None
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, sb.run("echo child").stdout.encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 100) == b"child\n"
        os.close(read)
        os.close(write)
        assert sb.run("echo parent").stdout == "parent\n" and alive(daemon._process.pid)
    until(lambda: not alive(daemon._process.pid))


def test_a_child_does_not_keep_it_alive() -> None:
    with Client() as c:
        c.health()
        daemon = c._transport._daemon
        assert daemon is not None
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        until(lambda: not alive(daemon._process.pid), 10)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError) as e:
        Sandbox("x")
    assert e.value.field == "url" and "SANDBOX_BINARY" in (e.value.hint or "")
    monkeypatch.setenv("SANDBOX_BINARY", "/nonexistent/sandbox")
    with pytest.raises(UnavailableError) as e:
        Sandbox("x")
    assert "/nonexistent/sandbox" in str(e.value) or e.value.resource == "/nonexistent/sandbox"


def test_why_it_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{nonsense")
    monkeypatch.setenv("SANDBOX_CONFIG", str(tmp_path / "broken.json"))
    with pytest.raises(UnavailableError) as e:
        Sandbox("x")
    assert "broken.json" in str(e.value)


def test_async() -> None:
    async def go() -> None:
        async with AsyncSandbox("async") as sb:
            assert (await sb.run("echo a")).stdout == "a\n"
            daemon = sb._t._daemon
        assert daemon is not None
        until(lambda: not alive(daemon._process.pid))

    asyncio.run(go())
