# Uses a sandbox of a cluster through E2B's client for Python, and prints "ok".
from e2b import CommandExitException, Sandbox

s = Sandbox.create()
try:
    r = s.commands.run("echo out; echo err >&2")
    assert (r.stdout, r.stderr, r.exit_code) == ("out\n", "err\n", 0), r
    try:
        s.commands.run("exit 3")
        raise AssertionError("exit 3 is no error")
    except CommandExitException as e:
        assert e.exit_code == 3, e
    h = s.commands.run("cat", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "typed\n")
    s.commands.close_stdin(h.pid)
    assert h.wait().stdout == "typed\n"
    s.files.write("a.txt", "text")
    assert s.files.read("a.txt") == "text"
    s.files.write("b.bin", b"\x00\xff")
    assert bytes(s.files.read("b.bin", format="bytes")) == b"\x00\xff"
    assert s.files.make_dir("d/e")
    assert {e.name for e in s.files.list(".")} == {"a.txt", "b.bin", "d"}
    s.files.rename("a.txt", "d/c.txt")
    assert s.files.exists("d/c.txt") and not s.files.exists("a.txt")
    assert s.commands.run("cat d/c.txt").stdout == "text"
    assert s.is_running()
    same = Sandbox.connect(s.sandbox_id)
    assert same.files.read("d/c.txt") == "text"
finally:
    assert s.kill()
assert not s.is_running()
print("ok")
