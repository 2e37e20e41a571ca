//go:build linux

package sandboxexec

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

func seen(p sandbox.Process) (out []string) {
	for _, v := range p.(sandbox.ViolationObserver).Violations() {
		out = append(out, fmt.Sprintf("%s %s %s %q %v %s", v.Kind, v.Operation, v.Resource, v.Rule, v.Builtin, v.Program))
	}
	return out
}

// TestViolations holds that what the log tells of a command, or a line, is told
// of it and of no other, and that the rules have the last word.
func TestViolations(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	ssh := filepath.Join(r.home, ".ssh")
	s.Filesystem.DenyRead = []string{ssh}
	ws := s.Mounts[0].Source
	h := r.open(s)
	if args, err := os.ReadFile(filepath.Join(r.dir, "logargs")); err != nil || !strings.HasPrefix(string(args), "stream\n--style\nndjson\n") || !strings.Contains(string(args), r.p.watch.prefix) {
		t.Errorf("%q, %v", args, err)
	}
	sh := r.shell(h, sandbox.ShellOptions{})
	r.file("refuse", strings.Join([]string{
		"cat(7) deny(1) file-read-data " + ssh + "/id", "touch(8) deny(1) file-write-create " + r.home + "/new", "cat(9) deny(1) file-read-data " + ws + "/mine",
		"curl(10) deny(1) network-outbound remote:*:443", "ls(11) deny(1) file-read-metadata " + r.home, "x(12) deny(1) mach-lookup com.example",
	}, "\n")+"\n")
	want := []string{
		fmt.Sprintf("path read %s/id %q true cat", ssh, "filesystem.denyRead: "+ssh),
		fmt.Sprintf("path write %s/new %q false touch", r.home, plan.RuleUnlisted),
		fmt.Sprintf("network connect *:443 %q true curl", ruleProxy),
	}
	failed := r.run(h, "false")
	line := r.line(sh, "false")
	must(t, os.Remove(filepath.Join(r.dir, "refuse")))
	for name, got := range map[string]result{"command": failed, "line": line} {
		if list := seen(got.p); !slices.Equal(list, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(list, "\n"), strings.Join(want, "\n"))
		}
	}
	if list := seen(r.run(h, "false").p); len(list) > 0 {
		t.Errorf("another command: %q", list)
	}
	f := violation.Classify(h, violation.Ending{Exit: failed.exit, Dir: sandbox.WorkspaceDir, Observed: failed.p.(sandbox.ViolationObserver).Violations()})
	if !f.Blocked || f.Resource == "" {
		t.Errorf("%+v", f)
	}
	if r.warnings() != "" {
		t.Errorf("warned of %q", r.warnings())
	}
	r.p.watch.mu.Lock()
	defer r.p.watch.mu.Unlock()
	if n := len(r.p.watch.tags); n != 0 {
		t.Errorf("%d commands that have ended are followed", n)
	}
}

// TestForged holds that lines of the log without a tag of ours count for nothing,
// and that long ones harm nothing.
func TestForged(t *testing.T) {
	r := newRig(t)
	h := r.open(r.spec("a"))
	long := `{"eventMessage":"` + strings.Repeat("x", 2*plan.MaxLogLine) + "\"}\n"
	r.file("log", long+`{"eventMessage":"Sandbox: cat(7) deny(1) file-read-data /x\n`+r.p.watch.prefix+`guess","processID":0}`+"\n")
	r.file("refuse", "cat(7) deny(1) file-read-data /Users/x\n")
	if list := seen(r.run(h, "false").p); len(list) != 1 {
		t.Errorf("%q", list)
	}
}

// TestUnseen holds that a log which may not be followed is told of, and that what
// a program says of a denied path still counts.
func TestUnseen(t *testing.T) {
	r := newRig(t)
	r.file("user", "")
	other := filepath.Join(r.home, "other")
	h := r.open(r.spec("a"))
	if !strings.Contains(r.warnings(), "what sandbox-exec refuses is not seen: log: Must be admin to run 'stream' command") {
		t.Errorf("warned of %q", r.warnings())
	}
	got := r.run(h, "sh", "-c", "echo 'cat: "+other+": Operation not permitted' >&2; exit 1")
	f := violation.Classify(h, violation.Ending{Exit: got.exit, Dir: sandbox.WorkspaceDir, Stderr: []byte(got.err), Observed: got.p.(sandbox.ViolationObserver).Violations()})
	if !f.Blocked || f.Resource != other || len(f.Causes) != 1 || f.Causes[0].Builtin || f.Causes[0].HostPath != other || f.Causes[0].Evidence != sandbox.EvidenceStrong {
		t.Errorf("%+v", f)
	}
	r2 := newRig(t)
	must(t, os.Remove(filepath.Join(r2.dir, "log-stand-in")))
	r2.open(r2.spec("a"))
	if !strings.Contains(r2.warnings(), "not seen") {
		t.Errorf("warned of %q", r2.warnings())
	}
	must(t, r2.p.Close())
	must(t, r2.p.Close())
}

// TestListen holds that commands may connect to the ports of the listeners that
// there are, and that the other loopback address is taken along.
func TestListen(t *testing.T) {
	r := newRig(t)
	h := r.open(r.spec("a"))
	l, err := h.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	at := netip.MustParseAddrPort(l.Addr().String())
	rule := fmt.Sprintf(`(allow network-outbound (remote ip "localhost:%d"))`, at.Port())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "hello")
			c.Close()
		}
	}()
	got := r.run(h, "bash", "-c", fmt.Sprintf("cat </dev/tcp/127.0.0.1/%d", at.Port()))
	if got.out != "hello" || !strings.Contains(r.profile(), rule) || strings.Count(r.profile(), "allow network") != 1 {
		t.Errorf("%+v under\n%s", got, r.profile())
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", at.Port())); err == nil {
		b := make([]byte, 10)
		if n, _ := c.Read(b); n > 0 {
			t.Errorf("::1 says %q", b[:n])
		}
		c.Close()
	} else if _, err := net.Listen("tcp", "[::1]:0"); err == nil {
		t.Error("the port of ::1 is free")
	}
	_, err = h.Listen(t.Context(), "tcp", l.Addr().String())
	if sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a taken port: %v", err)
	}
	for _, bad := range []struct {
		network, addr string
		code          sandbox.Code
	}{
		{"unix", "/x", sandbox.CodeUnsupported}, {"tcp", "127.0.0.2:0", sandbox.CodeUnsupported}, {"tcp", "0.0.0.0:0", sandbox.CodeUnsupported},
		{"tcp", "[::1]:0", sandbox.CodeUnsupported}, {"tcp", "localhost:0", sandbox.CodeValidation}, {"tcp", "", sandbox.CodeValidation}, {"udp", "127.0.0.1:0", sandbox.CodeUnsupported},
	} {
		if _, err := h.Listen(t.Context(), bad.network, bad.addr); sandbox.CodeOf(err) != bad.code {
			t.Errorf("%s %q: %v", bad.network, bad.addr, err)
		}
	}
	must(t, l.Close())
	r.run(h, "true")
	if strings.Contains(r.profile(), "allow network") {
		t.Errorf("after its end:\n%s", r.profile())
	}
	again, err := h.Listen(t.Context(), "tcp", at.String())
	must(t, err)
	must(t, again.Close())
	must(t, h.Close())
	if _, err := h.Listen(t.Context(), "tcp", "127.0.0.1:0"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("of a closed handle: %v", err)
	}
}

// TestLocalBinding holds that programs may listen where the settings say so.
func TestLocalBinding(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	h := r.open(s)
	r.run(h, "true")
	if strings.Contains(r.profile(), "network-bind") {
		t.Errorf("without:\n%s", r.profile())
	}
	s.Egress.AllowLocalBinding = true
	h = r.reopen(s)
	r.run(h, "true")
	if !strings.Contains(r.profile(), `(allow network-bind (local ip "localhost:*"))`) || strings.Contains(r.profile(), "allow network-outbound") {
		t.Errorf("with:\n%s", r.profile())
	}
}

// TestPlan holds that explain has what there is, what there is not, and no
// folder made for it.
func TestPlan(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	s.Filesystem.DenyRead = []string{filepath.Join(r.home, ".ssh"), "**/.env"}
	s.Egress.AllowLocalBinding = true
	made, err := r.p.Plan(t.Context(), s)
	must(t, err)
	text := fmt.Sprintf("%+v", made)
	for _, want := range []string{"{Does:writable Target:" + s.Mounts[0].Source, "{Does:closed Target:" + r.home + "/.ssh", "{Does:closed Target:**/.env", "has not been run on macOS", "docker.pidsLimit is not enforced", "allowLocalBinding", "{Name:namespaces On:false"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if v := made.Judge(sandbox.OpRead, "/workspace/a/.env"); v.Allowed || !v.Builtin || v.HostPath != filepath.Join(s.Mounts[0].Source, "a/.env") {
		t.Errorf("%+v", v)
	}
	if v := made.Judge(sandbox.OpWrite, "/workspace/a"); !v.Allowed {
		t.Errorf("%+v", v)
	}
	if _, err := os.Stat(filepath.Join(r.state, "local")); !os.IsNotExist(err) {
		t.Errorf("explain has made something: %v", err)
	}
}
