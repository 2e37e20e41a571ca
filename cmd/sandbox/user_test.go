package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestLocalSandboxForAnOrdinaryUser runs the program as an ordinary user, on a
// machine without an engine, in a home of its own.
func TestLocalSandboxForAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	testenv.Require(t, "user")
	u := newUser(t)
	tests := []struct {
		name   string
		args   string
		status int
		out    string // part of standard output
	}{
		{"run", "run -- sh -c id", 0, "uid="},
		{"its status", "run -- false", 1, ""},
		{"the workspace", "run -- touch made", 0, ""},
		{"exec", "exec -- ls", 0, "made"},
		{"the home is hidden", "run -- ls " + u.home, 2, ""},
		{"the workspace is all that can be written", "run -- touch /usr/made", 1, ""},
		{"files", "fs ls", 0, "made"},
		{"list", "list -o json", 0, `"status": "stopped"`},
		{"explain", "explain --all", 0, "our own user; as another one inside"},
		{"doctor", "doctor", 0, "ok    sandbox-start"},
		{"prune", "prune", 0, "kept 1"},
		{"remove", "recreate --all --force", 0, "removed sbx-default-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, errOut, status := u.sandbox(strings.Fields(tt.args)...)
			if status != tt.status || !strings.Contains(out, tt.out) {
				t.Errorf("status %d, %q, %q", status, out, errOut)
			}
		})
	}
}

// A user has a home, and the programs in it.
type user struct {
	t    *testing.T
	home string
}

func newUser(t *testing.T) *user {
	t.Helper()
	// Every folder above must let the user pass, which those of t.TempDir do not.
	home, err := os.MkdirTemp("", "sandbox-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	u := &user{t, home}
	guest, err := os.ReadFile(testenv.Guest(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "sandbox-guest"), guest, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	buildProgram(t, filepath.Join(home, "sandbox"), "")
	if os.Geteuid() == 0 {
		if err := os.Chown(home, testenv.OrdinaryUser, testenv.OrdinaryUser); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

func (u *user) sandbox(args ...string) (out, errOut string, status int) {
	u.t.Helper()
	var o, e strings.Builder
	cmd := exec.Command(filepath.Join(u.home, "sandbox"), append([]string{"--provider", "local"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = u.home, &o, &e
	cmd.Env = []string{"HOME=" + u.home, "PATH=" + os.Getenv("PATH"), "DOCKER_HOST=unix://" + u.home + "/nobody.sock"}
	testenv.AsUser(cmd)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		u.t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}
