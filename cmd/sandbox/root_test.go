//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoCommandRunsAsRoot holds that no command of the program runs something as
// root, with either provider, in this process or in a daemon.
func TestNoCommandRunsAsRoot(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	socket := filepath.Join(t.TempDir(), "d.sock")
	s.server(socket)
	for _, where := range [][]string{{"--provider", "docker"}, {"--provider", "local"}, {"--server", "unix:" + socket}} {
		for _, user := range []string{"root", "0", "0:0", "root:root"} {
			for _, what := range [][]string{
				{"run", "-u", user, "--", "touch", "/workspace/ran"}, {"exec", "--user", user, "--", "touch", "/workspace/ran"}, {"run", "--rm", "-u", user, "--", "touch", "/workspace/ran"},
			} {
				var complaint bytes.Buffer
				cmd := s.command(append(where, what...)...)
				cmd.Stderr = &complaint
				err := cmd.Run()
				exit, ended := errors.AsType[*exec.ExitError](err)
				if !ended || exit.ExitCode() != 125 || !strings.Contains(complaint.String(), "SANDBOX.CAPABILITY_BLOCKED") || !strings.Contains(complaint.String(), "user") || !strings.Contains(complaint.String(), "hint:") {
					t.Errorf("%v %v: %v, %s", where, what, err, complaint.String())
				}
			}
		}
		out, err := s.command(append(where, "run", "-u", "sandbox", "--", "sh", "-c", "ls /workspace; id -un")...).CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "sandbox\n") || strings.Contains(string(out), "ran") {
			t.Errorf("%v: %v, %s", where, err, out)
		}
	}
}
