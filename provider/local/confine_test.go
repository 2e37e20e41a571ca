//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestLimitsOfTheSpec(t *testing.T) {
	r := newRig(t)
	sb := r.open(r.provider(t), r.spec("a"))
	if out, _ := sh(t, sb, "ulimit -Hn; ulimit -Sn; ulimit -Hc"); out != "8192\n4096\n0" {
		t.Errorf("limits are %q", out)
	}
	// At 0 the host's handler of cores would be started.
	var core unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_CORE, &core))
	want := fmt.Sprintf("Max core file size %d %[1]d bytes", min(core.Max, 1))
	for _, file := range []string{"/proc/self/limits", "/proc/1/limits"} {
		if out, _ := sh(t, sb, "ulimit -c 0 || echo fails; grep core "+file+" | tr -s ' '"); strings.TrimSpace(out) != want {
			t.Errorf("%s has %q, want %q", file, out, want)
		}
	}
}

// TestNobodyIsRoot looks at the instance's processes from outside.
func TestNobodyIsRoot(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	pid := sb.Info().PID
	status, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "status"))
	must(t, err)
	for text := range strings.Lines(string(status)) {
		f := strings.Fields(text)
		switch {
		case (f[0] == "Uid:" || f[0] == "Gid:") && (f[1] == "0" || f[2] == "0" || f[3] == "0" || f[4] == "0"):
			t.Errorf("root on the host: %s", text)
		case f[0] == "Groups:" && len(f) > 1 && os.Geteuid() == 0:
			t.Errorf("it has groups: %s", text)
		case f[0] == "CapEff:" && f[1] != "0000000000000000", f[0] == "CapPrm:" && f[1] != "0000000000000000":
			t.Errorf("it has capabilities: %s", text)
		case f[0] == "NoNewPrivs:" && f[1] != "1":
			t.Errorf("it can gain privileges: %s", text)
		}
	}
}

func itoa(n int) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

func TestWhatIsTriedIsReported(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	give(t, s, filepath.Join(workspaceOf(s), ".env"), "secret")
	sb := r.open(r.provider(t), s)
	var out bytes.Buffer
	p, err := sb.Start(context.Background(), sandbox.Command{
		Args: []string{"bash", "-c", "echo a >/etc/new; echo b >.env; echo c >fine; mkdir /home/other; true"}, Stdout: &out, Stderr: &out,
	})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	if exit.Code != 0 {
		t.Errorf("%+v %s", exit, out.String())
	}
	got := map[string]sandbox.Violation{}
	for _, v := range p.(sandbox.ViolationObserver).Violations() {
		got[v.Resource] = v
		if v.Evidence != sandbox.EvidenceCertain || v.Operation != sandbox.OpWrite || v.Kind != sandbox.ResourcePath || v.Rule == "" {
			t.Errorf("violation %+v", v)
		}
	}
	if v := got["/workspace/.env"]; !v.Builtin || v.HostPath != filepath.Join(workspaceOf(s), ".env") || v.Program != "bash" {
		t.Errorf("of the closed file: %+v", v)
	}
	if v, ok := got["/etc/new"]; !ok || v.Builtin || v.HostPath != "/etc/new" {
		t.Errorf("of the system's folder: %+v", got)
	}
	if _, ok := got["/workspace/fine"]; ok || len(got) != 3 {
		t.Errorf("all: %+v", got)
	}
}

func TestFilesFollowTheSandbox(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sb := r.open(r.provider(t), s)
	f, err := sb.(sandbox.FileServer).Files(context.Background())
	must(t, err)
	must(t, f.Write(context.Background(), "/workspace/a", strings.NewReader("text"), sandbox.WriteOptions{}))
	reading, err := f.Read(context.Background(), "/workspace/a", 0, -1)
	must(t, err)
	give(t, s, filepath.Join(workspaceOf(s), ".env"), "secret")
	if _, err := f.Read(context.Background(), "/workspace/.env", 0, -1); err == nil {
		t.Error("a closed file can be read")
	}
	var old bytes.Buffer
	if _, err := old.ReadFrom(reading); err != nil || old.String() != "text" {
		t.Errorf("what was being read: %q, %v", old.String(), err)
	}
	must(t, reading.Close())
	if _, err := f.Stat(context.Background(), "/workspace/a"); err != nil {
		t.Error(err)
	}
	testenv.Until(t, "the old sandbox goes", func() bool { return len(r.processes(t)) == 1 })
}

func TestRefusedSettings(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	for field, change := range map[string]func(*sandbox.Spec){
		"docker.network":              func(s *sandbox.Spec) { s.Network = "bridge" },
		"docker.dns":                  func(s *sandbox.Spec) { s.DNS = []string{"1.1.1.1"} },
		"docker.extraHosts":           func(s *sandbox.Spec) { s.ExtraHosts = []string{"a:1.1.1.1"} },
		"docker.setup":                func(s *sandbox.Spec) { s.Setup = []string{"true"} },
		"docker.runtime":              func(s *sandbox.Spec) { s.Runtime = "runsc" },
		"docker.gpus":                 func(s *sandbox.Spec) { s.GPUs = "all" },
		"docker.apparmorProfile":      func(s *sandbox.Spec) { s.Security.AppArmor = "mine" },
		"docker.seccompProfile":       func(s *sandbox.Spec) { s.Security.Seccomp = `{"defaultAction":"SCMP_ACT_ERRNO"}` },
		"docker.readOnlyRoot":         func(s *sandbox.Spec) { s.ReadOnlyRoot = false },
		"docker.capDrop":              func(s *sandbox.Spec) { s.Security.CapDrop = []string{"NET_RAW"} },
		"filesystem.allowWrite":       func(s *sandbox.Spec) { s.Filesystem.AllowWrite = []string{"/srv/*"} },
		"filesystem.allowUnixSockets": func(s *sandbox.Spec) { s.Filesystem.AllowUnixSockets = []string{"/run/*.sock"} },
		"providerOptions.bwarp":       func(s *sandbox.Spec) { s.Options = map[string]any{"bwarp": "/x"} },
		"providerOptions.bwrap":       func(s *sandbox.Spec) { s.Options = map[string]any{"bwrap": "relative"} },
		"providerOptions.observe":     func(s *sandbox.Spec) { s.Options = map[string]any{"observe": "no"} },
		"docker.ulimits.nofiles":      func(s *sandbox.Spec) { s.Resources.Ulimits = []sandbox.Ulimit{{Name: "nofiles"}} },
	} {
		s := r.spec(field)
		change(&s)
		_, err := p.Create(context.Background(), s)
		e, ok := err.(*sandbox.Error)
		if !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	r.leaks(t)
}

// TestUnixSockets has a program of the host listen in two places.
func TestUnixSockets(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		testenv.Lack(t, "perl", err) // which speaks to sockets without being built
	}
	r := newRig(t)
	s := r.spec("a")
	outside, err := os.MkdirTemp("/tmp", "s") // a socket's path is short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(outside) })
	must(t, os.Chmod(outside, 0o755))
	listed, other := filepath.Join(outside, "listed"), filepath.Join(outside, "other")
	for _, path := range []string{listed, other} {
		l, err := net.Listen("unix", path)
		must(t, err)
		defer l.Close()
		must(t, os.Chmod(path, 0o777))
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Write([]byte("host"))
				c.Close()
			}
		}()
	}
	s.Filesystem.AllowRead = []string{outside}
	const ask = `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0) or die "socket $!"; connect(S,sockaddr_un($ARGV[0])) or die "connect $!"; print <S>' `
	sb := r.open(r.provider(t), s)
	for _, path := range []string{listed, other} {
		if out, code := sh(t, sb, ask+path); code == 0 {
			t.Errorf("without the setting %s says %q", path, out)
		}
	}
	s = r.spec("b")
	s.Filesystem.AllowRead, s.Filesystem.AllowUnixSockets = []string{outside}, []string{listed}
	sb = r.open(r.provider(t), s)
	if out, code := sh(t, sb, ask+listed); code != 0 || out != "host" {
		t.Errorf("with the setting: status %d, %q", code, out)
	}
	if out, code := sh(t, sb, ask+other); code == 0 {
		t.Errorf("another socket says %q", out)
	}
}

func TestOurOwnStateCannotBeOpened(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	s := r.spec("a")
	s.Filesystem.AllowRead = []string{r.state.Registry()}
	if _, err := p.Create(context.Background(), s); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("by a rule: %v", err)
	}
	s = r.spec("a")
	r.open(p, s)
	s.Grants = []sandbox.Grant{{Operation: sandbox.OpRead, Path: r.state.Registry()}}
	if _, err := p.Open(context.Background(), s); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("by a grant: %v", err)
	}
	s = r.spec("c")
	s.Filesystem.AllowRead = []string{filepath.Dir(r.state.Path())}
	sb := r.open(p, s)
	if out, _ := sh(t, sb, "ls "+r.state.Path()+" 2>/dev/null"); out != "" {
		t.Errorf("with a folder above to be read: %q", out)
	}
}
