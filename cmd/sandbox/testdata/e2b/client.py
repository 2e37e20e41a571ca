# Drives a daemon with the client of E2B for Python. Each step prints a line; the exit
# status is 1 when one has failed.
import asyncio
import http.client
import os
import sys
import time

from e2b import AsyncSandbox, CommandExitException, Sandbox, SandboxQuery, SandboxState

failed = 0


def step(name, fn):
    global failed
    try:
        print("ok", name, fn() or "", flush=True)
    except Exception as e:  # each step is to run
        failed += 1
        print("FAIL", name, type(e).__name__, e, flush=True)


def refused(fn):
    try:
        fn()
    except Exception as e:
        return e
    raise AssertionError("it was not refused")


def run():
    r = s.commands.run("echo out; echo err >&2")
    assert (r.stdout, r.stderr, r.exit_code) == ("out\n", "err\n", 0), r
    e = refused(lambda: s.commands.run("exit 3"))
    assert isinstance(e, CommandExitException) and e.exit_code == 3, e
    seen = []
    s.commands.run("echo 1; sleep 0.1; echo 2", on_stdout=seen.append)
    assert "".join(seen) == "1\n2\n", seen


def background():
    h = s.commands.run("sleep 30", background=True)
    assert any(p.pid == h.pid for p in s.commands.list())
    assert s.commands.kill(h.pid)
    c = s.commands.run("cat", background=True, stdin=True)
    s.commands.send_stdin(c.pid, "hello\n")
    s.commands.close_stdin(c.pid)
    assert c.wait().stdout == "hello\n"
    r = s.commands.run("echo a; sleep 1; echo b", background=True)
    r.disconnect()
    assert s.commands.connect(r.pid).wait().stdout == "a\nb\n"


def files():
    s.files.write("a.txt", "text")
    assert s.files.read("a.txt") == "text"
    s.files.write("b.bin", b"\x00\xff")
    assert bytes(s.files.read("b.bin", format="bytes")) == b"\x00\xff"
    assert b"".join(s.files.read("a.txt", format="stream")) == b"text"
    assert s.files.make_dir("d/e") and not s.files.make_dir("d/e")
    assert {e.name for e in s.files.list(".")} == {"a.txt", "b.bin", "d"}
    assert s.files.get_info("a.txt").size == 4
    s.files.rename("a.txt", "d/c.txt")
    assert s.files.exists("d/c.txt") and not s.files.exists("a.txt")
    s.files.remove("d/c.txt")
    assert not s.files.exists("d/c.txt")
    assert "403" in str(refused(lambda: s.files.write("/etc/x", "x")))


def watch():
    w = s.files.watch_dir("d")
    s.files.write("d/w.txt", "1")
    s.commands.run("cd d; echo 2 >> w.txt; chmod 600 w.txt; mv w.txt v.txt; rm v.txt")
    end, seen = time.time() + 30, []
    while time.time() < end and ("v.txt", "remove") not in seen:
        seen += [(e.name, e.type.value) for e in w.get_new_events()]
        time.sleep(0.1)
    w.stop()
    for want in [("w.txt", "create"), ("w.txt", "write"), ("w.txt", "chmod"), ("w.txt", "rename"), ("v.txt", "create"), ("v.txt", "remove")]:
        assert want in seen, (want, seen)


def get(host, token=None):
    c = http.client.HTTPConnection("127.0.0.1", int(host.rpartition(":")[2]), timeout=60)
    c.request("GET", "/", headers={"Host": host, **({"e2b-traffic-access-token": token} if token else {})})
    r = c.getresponse()
    return r.status, r.read().decode()


def serve(box, text):
    box.files.write("srv/index.html", text)
    box.commands.run("python3 -m http.server 8000 --bind 127.0.0.1 --directory srv", background=True, timeout=0)
    end, got = time.time() + 30, None
    while time.time() < end and got != (200, text):
        got = get(box.get_host(8000), box.traffic_access_token)
        time.sleep(0.1)
    assert got == (200, text), got


def host():
    serve(s, "from inside")
    assert get(s.get_host(8000)) == (200, "from inside")
    x = Sandbox.create(timeout=60, network={"allow_public_traffic": False})
    serve(x, "closed")
    assert get(x.get_host(8000))[0] == 401 and get(x.get_host(8000), "wrong")[0] == 401
    token = x.traffic_access_token
    x.kill()
    assert get(x.get_host(8000), token)[0] >= 400


def pause():
    s.pause()
    assert s.get_info().state == SandboxState.PAUSED
    s.connect()
    assert s.is_running()


def snapshots():
    s.files.write("s.txt", "snapshot")
    a = s.create_snapshot(name="built")
    b = s.create_snapshot(mode="filesystem")
    assert a.names == ["built"] and a.snapshot_id != b.snapshot_id
    assert "501" in str(refused(lambda: s.create_snapshot(mode="full")))
    s.files.write("s.txt", "later")
    listed, pages = [], s.list_snapshots(limit=1)
    while pages.has_next:
        listed += pages.next_items()
    assert [x.snapshot_id for x in listed] == [a.snapshot_id, b.snapshot_id], listed
    assert [x.snapshot_id for x in Sandbox.list_snapshots(name="built").next_items()] == [a.snapshot_id]
    x = Sandbox.create(a.snapshot_id, timeout=60)
    assert x.files.read("s.txt") == "snapshot" and s.files.read("s.txt") == "later"
    x.kill()
    assert Sandbox.delete_snapshot(a.snapshot_id) and Sandbox.delete_snapshot(b.snapshot_id) and not Sandbox.delete_snapshot(a.snapshot_id)


def fork():
    s.files.write("f.txt", "parent")
    forks = s.fork(timeout=60, count=2)
    assert len(forks) == 2
    for f in forks:
        assert isinstance(f, Sandbox) and f.sandbox_id != s.sandbox_id, f
        assert f.files.read("f.txt") == "parent"
        f.files.write("f.txt", f.sandbox_id)
    assert forks[0].files.read("f.txt") == forks[0].sandbox_id and s.files.read("f.txt") == "parent"
    for f in forks:
        assert f.kill()


async def asynchronous():
    a = await AsyncSandbox.connect(s.sandbox_id)
    assert (await a.commands.run("echo hi")).stdout == "hi\n"
    seen = b""

    async def data(d):
        nonlocal seen
        seen += d

    from e2b import PtySize

    p = await a.pty.create(PtySize(rows=24, cols=80), on_data=data, timeout=0)
    await a.pty.send_stdin(p.pid, b"stty size\n")
    end = time.time() + 30
    while time.time() < end and b"24 80" not in seen:
        await asyncio.sleep(0.05)
    assert b"24 80" in seen, seen
    assert await a.pty.kill(p.pid)


def other():
    key = os.environ["OTHER_KEY"]
    assert Sandbox.list(api_key=key).next_items() == []
    assert not Sandbox.kill(s.sandbox_id, api_key=key)
    refused(lambda: Sandbox.connect(s.sandbox_id, api_key=key))


s = Sandbox.create(timeout=120)
step("run", run)
step("background", background)
step("files", files)
step("watch", watch)
step("list", lambda: None if [x.sandbox_id for x in Sandbox.list(query=SandboxQuery(state=[SandboxState.RUNNING])).next_items()] == [s.sandbox_id] else 1 / 0)
step("timeout", lambda: s.set_timeout(100))
step("metrics", lambda: None if s.get_metrics()[0].mem_used > 0 else 1 / 0)
step("host", host)
step("pause", pause)
step("asynchronous", lambda: asyncio.run(asynchronous()))
step("another tenant", other)
step("snapshots", snapshots)
step("fork", fork)
step("kill", lambda: None if s.kill() and not Sandbox.kill(s.sandbox_id) and not s.is_running() else 1 / 0)
sys.exit(1 if failed else 0)
