//go:build linux

package local_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsHaveSocketsOfTheirOwn holds that programs listen and connect
// inside, in later commands too, whatever names they use, while a socket of the
// host in the same folder stays closed.
func TestProgramsHaveSocketsOfTheirOwn(t *testing.T) {
	g := newGuardRig(t, nil)
	give(t, g.spec, filepath.Join(workspaceOf(g.spec), "own.py"), `
import socket, multiprocessing, os, sys, threading, errno
def pair(kind, bound, named, wait=None):
    l = socket.socket(socket.AF_UNIX, kind); l.bind(bound); l.listen(1)
    c = socket.socket(socket.AF_UNIX, kind); c.settimeout(wait); c.connect(named)
    a, _ = l.accept(); c.send(b"x"); assert a.recv(1) == b"x"; assert c.getpeername() == (bound.encode() if bound[0] == "\0" else bound)
if __name__ == "__main__":
    assert multiprocessing.Manager().list([1])[0] == 1
    os.symlink("a", "l")
    for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
        pair(kind, "a", "/workspace/l"); os.unlink("a")
        pair(kind, "/tmp/b", "/proc/self/root/tmp/b", 5); os.unlink("/tmp/b")
        pair(kind, "\0c%d" % kind, "\0c%d" % kind)
    os.chdir("/tmp"); pair(socket.SOCK_STREAM, "d", "../tmp/d")
    full = socket.socket(socket.AF_UNIX); full.bind("f"); full.listen(0)
    cs = [socket.socket(socket.AF_UNIX) for i in range(3)]
    for c in cs: c.setblocking(False)
    got = [c.connect_ex("f") for c in cs]
    assert errno.EAGAIN in got, got
    waits = socket.socket(socket.AF_UNIX)
    t = threading.Thread(target=lambda: waits.connect("f")); t.start()
    for i in range(got.count(0) + 1): full.accept()
    t.join(); assert waits.getblocking()
    for name, code in (("none", errno.ENOENT), ("/workspace/own.py", errno.ECONNREFUSED), ("/workspace/host.sock", errno.ECONNREFUSED)):
        got = socket.socket(socket.AF_UNIX).connect_ex(name)
        assert got in (code, errno.EPERM), (name, got)
    try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); assert False
    except PermissionError: pass
    tcp = socket.create_server(("127.0.0.1", 0)); socket.create_connection(tcp.getsockname())
    print("done")
`)
	dir, err := os.Open(workspaceOf(g.spec)) // whose path may be too long for a socket
	must(t, err)
	defer dir.Close()
	host, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/host.sock", int(dir.Fd())))
	must(t, err)
	defer host.Close()
	must(t, os.Chmod(filepath.Join(workspaceOf(g.spec), "host.sock"), 0o777))
	if out, code := sh(t, g.sb, "python3 own.py"); code != 0 || !strings.HasSuffix(out, "done") {
		t.Fatalf("%d\n%s", code, out)
	}
	g.start(t, `exec python3 -c 'import socket; l=socket.socket(socket.AF_UNIX); l.bind("later"); l.listen(); print("ready",flush=True); c,_=l.accept(); c.send(b"hello"); l.accept()'`, true)
	if out, code := sh(t, g.sb, `python3 -c 'import socket; c=socket.socket(socket.AF_UNIX); c.connect("later"); print(c.recv(9).decode())'`); code != 0 || out != "hello" {
		t.Errorf("a later command: %d %q", code, out)
	}
}

// TestGitCleanPassesPlaceholders holds that removing what only holds the place
// of a closed folder is answered as done, and that nothing else is.
func TestGitCleanPassesPlaceholders(t *testing.T) {
	g := newGuardRig(t, nil)
	spec := g.rig.spec("clean")
	own := ownRepo(t, g.rig, &spec)
	must(t, os.Mkdir(filepath.Join(own, ".idea"), 0o755))
	give(t, spec, filepath.Join(own, ".idea", "kept"), "x")
	sb := g.open(g.p, spec)
	out, code := sh(t, sb, `touch junk; git clean -ffdx -e .idea && git status --porcelain && ls`)
	if code != 0 || strings.Contains(out, "warning") || strings.Contains(out, "?? .claude") || strings.Contains(out, "junk\nfile") {
		t.Errorf("%d\n%s", code, out)
	}
	for _, script := range []string{"rmdir .claude", "rm -rf .claude .vscode/", "cd .git && rmdir ../.codex", `python3 -c 'import os; os.rmdir("/workspace/.cursor")'`} {
		if out, code := sh(t, sb, script); code != 0 {
			t.Errorf("%s: %d\n%s", script, code, out)
		}
	}
	for _, script := range []string{"rm -rf .idea", "rmdir .git/hooks", "mv .claude c", "touch .claude/x", "rm .git/config", "mkdir .claude"} {
		if out, code := sh(t, sb, script); code == 0 {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	if _, err := os.Lstat(filepath.Join(own, ".claude")); err != nil {
		t.Error("the placeholder is gone from the host")
	}
}
