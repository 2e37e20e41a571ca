package fsbridge

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A crossed is a place where each script runs in a shell of this machine after
// a text which does, at one moment of it, what another script might have done.
type crossed struct{ shell, text string }

func (c crossed) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	args := append([]string{"-c", c.text + "\n" + cmd.Args[2]}, cmd.Args[3:]...)
	p := exec.CommandContext(ctx, c.shell, args...)
	if filepath.Base(c.shell) == "busybox" {
		p.Args = append([]string{"sh"}, args...)
	}
	p.Dir, p.Stdin, p.Stdout, p.Stderr = cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr
	_ = p.Run() // the status is reported below
	return process{said{exit: sandbox.Exit{Code: p.ProcessState.ExitCode()}}}, nil
}

// TestCrossing has something change between two looks of a script: that is no
// reason to refuse what nothing forbids.
func TestCrossing(t *testing.T) {
	write := func(f *scriptFiles, dir string) error {
		return f.Write(context.Background(), dir+"/sub/f", strings.NewReader("new"), sandbox.WriteOptions{})
	}
	for name, tt := range map[string]struct{ before, text string }{
		"nothing": {"", ""},
		"a folder is made when it could not be entered": {"", `
			fails=0
			cd() { command cd "$@" && return; fails=$((fails + 1)); [ $fails != 2 ] || mkdir ./sub; return 1; }`},
		"a folder is made again and again": {"", `
			fails=0
			cd() { [ $fails -gt 4 ] || rm -rf ./sub; command cd "$@" && return; fails=$((fails + 1)); mkdir ./sub; return 1; }`},
		"a folder is made by another, and goes": {"", `
			mkdir() {
				command mkdir "$1" || return
				[ ! -e ./once ] || return 0
				: >./once
				command mkdir "$1"
				rmdir "$1"
				return 1
			}`},
		"a folder goes when it was made": {"", `
			fails=0
			cd() { [ $fails != 2 ] || rmdir ./sub; command cd "$@" && return; fails=$((fails + 1)); return 1; }`},
		"the file goes when its mode is asked for": {"old", `stat() { rm -f ./f; command stat "$@"; }`},
		"the file is replaced meanwhile":           {"old", `stat() { printf other >./g; mv -f ./g ./f; command stat "$@"; }`},
	} {
		for _, shell := range []string{"dash", "bash", "busybox"} {
			t.Run(name+"/"+shell, func(t *testing.T) {
				path, err := exec.LookPath(shell)
				if err != nil {
					testenv.Lack(t, shell, "it is not installed")
				}
				dir := t.TempDir()
				if tt.before != "" {
					must(t, os.Mkdir(dir+"/sub", 0o755))
					must(t, os.WriteFile(dir+"/sub/f", []byte(tt.before), 0o644))
				}
				table, err := NewMountTable([]sandbox.Mount{{Target: dir, Role: sandbox.RoleWorkspace}}, nil)
				must(t, err)
				must(t, write(&scriptFiles{starter: crossed{path, tt.text}, table: table}, dir))
				if got, err := os.ReadFile(dir + "/sub/f"); err != nil || !bytes.Equal(got, []byte("new")) {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
