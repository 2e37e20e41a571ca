package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"golang.org/x/sys/unix"
)

func TestStartFailures(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if d != os.TempDir() {
			must(t, os.Chmod(d, 0o755))
		}
		if d == os.TempDir() {
			break
		}
	}
	must(t, os.WriteFile(dir+"/plain", []byte("text"), 0o644))
	must(t, os.WriteFile(dir+"/script", []byte("#!/no/such/interpreter\n"), 0o755))
	must(t, os.WriteFile(dir+"/garbage", []byte("\x00\x01\x02"), 0o755))
	must(t, os.Mkdir(dir+"/closed", 0o700))
	with := func(args ...string) sandbox.Command { return sandbox.Command{Args: args} }
	for _, tt := range []struct {
		name  string
		cmd   sandbox.Command
		code  sandbox.Code
		field string
		is    error
		isNot error
	}{
		{"no such program", with("no-such-program"), sandbox.CodeExecution, "args", fs.ErrNotExist, nil},
		{"no such path", with("/no/such"), sandbox.CodeExecution, "args", fs.ErrNotExist, nil},
		{"not executable", with(dir + "/plain"), sandbox.CodeExecution, "args", fs.ErrPermission, nil},
		{"a folder", with("/usr"), sandbox.CodeExecution, "args", fs.ErrPermission, nil},
		{"no interpreter", with(dir + "/script"), sandbox.CodeExecution, "args", nil, fs.ErrNotExist},
		{"no format", with(dir + "/garbage"), sandbox.CodeExecution, "args", nil, fs.ErrNotExist},
		{"found in the command's PATH only", sandbox.Command{Args: []string{"true"}, Env: map[string]string{"PATH": "/nowhere"}}, sandbox.CodeExecution, "args", fs.ErrNotExist, nil},
		{"no such directory", sandbox.Command{Args: []string{"true"}, Dir: "/no/such"}, sandbox.CodeExecution, "dir", fs.ErrNotExist, nil},
		{"a closed directory", sandbox.Command{Args: []string{"true"}, Dir: dir + "/closed"}, sandbox.CodeExecution, "dir", fs.ErrPermission, nil},
		{"one argument too large", with("true", strings.Repeat("x", 200<<10)), sandbox.CodeExecution, "args", syscall.E2BIG, nil},
		{"environment too large", sandbox.Command{Args: []string{"true"}, Env: big(3 << 20)}, sandbox.CodeExecution, "args", syscall.E2BIG, nil},
		{"environment over ARG_MAX", sandbox.Command{Args: []string{"true"}, Env: big(2<<20 + 20<<10)}, sandbox.CodeExecution, "args", syscall.E2BIG, nil},
		{"no program", sandbox.Command{}, sandbox.CodeValidation, "args", nil, nil},
		{"empty program", with(""), sandbox.CodeValidation, "args", nil, nil},
		{"NUL in an argument", with("true", "a\x00b"), sandbox.CodeValidation, "args", nil, nil},
		{"NUL in the directory", sandbox.Command{Args: []string{"true"}, Dir: "/\x00"}, sandbox.CodeValidation, "dir", nil, nil},
		{"bad variable", sandbox.Command{Args: []string{"true"}, Env: map[string]string{"A=B": "c"}}, sandbox.CodeValidation, "env", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Start(context.Background(), tt.cmd)
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Field != tt.field {
				t.Fatalf("got %v", err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) || tt.isNot != nil && errors.Is(err, tt.isNot) {
				t.Errorf("wrong cause: %v", err)
			}
		})
	}
	// None of that hurts what comes next, and what is large but fits works.
	got := run(t, c, sandbox.Command{Args: []string{"sh", "-c", "echo ${#V0}"}, Env: big(900 << 10)})
	if got.stdout != "65536\n" {
		t.Errorf("got %+v", got)
	}
}

// big returns variables of n bytes in all.
func big(n int) map[string]string {
	m := map[string]string{}
	for i := 0; n > 0; i++ {
		m["V"+string(rune('0'+i%10))+strings.Repeat("_", i/10)] = strings.Repeat("v", min(n, 64<<10))
		n -= 64 << 10
	}
	return m
}

func TestLimits(t *testing.T) {
	c := startGuest(t).client(client.Options{Limits: sandbox.Limits{OpenFiles: 77, FileSize: 1 << 20}})
	got := run(t, c, sandbox.Command{
		Args:   []string{"sh", "-c", "ulimit -n; ulimit -f; ulimit -c; ulimit -t"},
		Limits: sandbox.Limits{FileSize: 1 << 19, CPUSeconds: 5},
	})
	if got.stdout != "77\n1024\n0\n5\n" {
		t.Errorf("got %+v", got)
	}
	got = run(t, c, sandbox.Command{Args: []string{"sh", "-c", "while :; do :; done"}, Limits: sandbox.Limits{CPUSeconds: 1}})
	// The kernel counts the limit in ticks and the usage by the clock, so on
	// a busy virtual machine the two differ, and the guest, which looks at the
	// usage of the whole command, may be first.
	xcpu, killed := got.exit.Signal == "XCPU" && got.exit.Code == 128+24, got.exit.Signal == "KILL" && got.exit.Code == 128+9
	if !xcpu && !killed || got.exit.Usage.User+got.exit.Usage.System < 500_000_000 {
		t.Errorf("got %+v", got)
	}
	if l := got.exit.Limit; l == nil || l.Limit != sandbox.LimitCPUSeconds {
		t.Errorf("the limit is %+v", l)
	}
	if got = run(t, startGuest(t).client(client.Options{}), sh("test $(ulimit -Sn) = $(ulimit -Hn) && echo same")); got.stdout != "same\n" {
		t.Errorf("got %+v", got)
	}
	if got = run(t, startGuest(t, withArg("--nofile=555")).client(client.Options{}), sh("ulimit -Sn; test $(ulimit -Hn) -gt 555 && echo hard")); got.stdout != "555\nhard\n" {
		t.Errorf("got %+v", got)
	}
	// At 0 the host's handler of cores would be started.
	var core unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_CORE, &core))
	want := fmt.Sprintf("Max core file size %d %[1]d bytes \n", min(core.Max, 1))
	if got = run(t, c, sh("grep core /proc/self/limits | tr -s ' '")); got.stdout != want {
		t.Errorf("got %+v, want %q", got, want)
	}
	// Limits of one command are not those of the next from the same shim.
	if got = run(t, c, sh("ulimit -t")); got.stdout != "unlimited\n" {
		t.Errorf("got %+v", got)
	}
}
