package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// workspace lists the default sandbox's workspace from the host.
func (s *site) workspace() []string {
	found, _ := filepath.Glob(s.state + "/workspaces/sbx-default-*/*") // hidden files too
	return found
}

// scripts reports whether the sandbox's files are served by scripts. The guest
// kills the script of a client that is gone at once, so that the script cannot
// remove its temporary file; the guest itself can.
func (s *site) scripts() bool {
	s.t.Helper()
	out, err := s.command("explain", "-o", "json").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return bytes.Contains(out, []byte(`"transport": "script"`))
}

// halfArchive is the start of an archive with a file of 1 MB.
func halfArchive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "file", Typeflag: tar.TypeReg, Size: 1 << 20, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	w.Write(make([]byte, 1<<19))
	return b.Bytes()
}

// TestCopyInThatEndsEarlyLeavesNothing cuts a copy into a sandbox in the
// middle of a file, in every way.
func TestCopyInThatEndsEarlyLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if out, err := s.command("fs", "write", "other").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tests := []struct {
		name string
		end  func(*exec.Cmd, io.Closer)
		want int
	}{
		{"interrupted", func(c *exec.Cmd, _ io.Closer) { c.Process.Signal(syscall.SIGINT) }, 130},
		{"terminated", func(c *exec.Cmd, _ io.Closer) { c.Process.Signal(syscall.SIGTERM) }, 143},
		{"cut off", func(_ *exec.Cmd, in io.Closer) { in.Close() }, 1},
		{"killed", func(c *exec.Cmd, _ io.Closer) { c.Process.Kill() }, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := s.command("cp", "-", "sandbox:")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			// Half of the file is more than the pipe and the windows on the
			// way hold: when it is written, the file is being made inside.
			in.Write(halfArchive(t))
			if s.scripts() { // the guest's new files have no name
				eventually(t, "no temporary file appears", func() bool { return len(s.workspace()) == 2 })
			}
			tt.end(cmd, in)
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.want {
				t.Errorf("status %d and %q, want %d", got, said.String(), tt.want)
			}
			eventually(t, "something is left over", func() bool { return len(s.workspace()) == 1 || tt.name == "killed" && s.scripts() })
			eventually(t, "something still runs inside", func() bool { return !strings.Contains(s.inside(), "sandbox-fs") })
		})
	}
}

// TestCopyOutThatEndsEarlyLeavesNothing interrupts a copy to the host.
func TestCopyOutThatEndsEarlyLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if out, err := s.command("run", "--", "truncate", "-s", "3G", "big").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	cmd := s.command("cp", "sandbox:big", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no temporary file appears", func() bool {
		found, _ := filepath.Glob(dir + "/.sbx-*.tmp")
		return len(found) == 1
	})
	begin := time.Now()
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("status %d", got)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	eventually(t, "something still runs inside", func() bool { return !strings.Contains(s.inside(), "sandbox-fs") })
}

// TestCopyToAStreamThatNobodyReads holds that a stuck reader is no reason to
// miss a signal.
func TestCopyToAStreamThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if out, err := s.command("run", "--", "truncate", "-s", "100M", "big").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := s.command("cp", "sandbox:big", "-")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 512)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 141 {
		t.Errorf("status %d, want 141", got)
	}
}
