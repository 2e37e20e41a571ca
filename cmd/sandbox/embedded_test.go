//go:build !sandbox_front && !sandbox_engine

package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// embedded starts a daemon as a program does that binds its life to its own, and
// returns the end of its standard input.
func (s *site) embedded() (*server, io.Closer) {
	s.t.Helper()
	var input io.WriteCloser
	d := s.server(filepath.Join(s.state, "daemon.sock"), func(cmd *exec.Cmd) {
		cmd.Args = []string{cmd.Args[0], "serve", "--embedded"}
		var err error
		if input, err = cmd.StdinPipe(); err != nil {
			s.t.Fatal(err)
		}
	})
	return d, input
}

func (d *server) healthy() bool {
	d.t.Helper()
	a, err := d.Get("http://daemon/healthz")
	if err != nil {
		return false
	}
	a.Body.Close()
	return a.StatusCode == 200
}

// An embedded daemon ends when its standard input closes.
func TestEmbeddedEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings("", "")
	d, input := s.embedded()
	if !d.healthy() {
		t.Fatal("it does not answer")
	}
	input.Close()
	if err := d.ended(); err != nil {
		t.Errorf("it has ended with %v", err)
	}
	d.quiet()
}

// Programs with one state folder share one daemon, which ends with the last of
// them.
func TestEmbeddedIsShared(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings("", "")
	first, one := s.embedded()
	second, two := s.embedded()
	third, three := s.embedded()
	one.Close()
	three.Close()
	if err := third.ended(); err != nil {
		t.Errorf("one of those that share it: %v", err)
	}
	if !second.healthy() {
		t.Error("the daemon does not outlast the program that has started it, while another one uses it")
	}
	two.Close()
	for _, d := range []*server{first, second} {
		if err := d.ended(); err != nil {
			t.Errorf("it has ended with %v", err)
		}
		d.quiet()
	}
}

// Where the shared daemon was killed, one of the programs that shared it has the
// next one, at the same address, and no lease of its own keeps it alive.
func TestEmbeddedIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings("", "")
	first, one := s.embedded()
	defer one.Close()
	second, two := s.embedded()
	third, three := s.embedded()
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.ended()
	second.CloseIdleConnections()
	at := "listening at unix:" + second.socket
	if line := second.says(at); !strings.Contains(line, at) || !second.healthy() {
		t.Error("no other daemon answers at the address of the one that was killed")
	}
	two.Close()
	three.Close()
	for _, d := range []*server{second, third} {
		if err := d.ended(); err != nil {
			t.Errorf("it has ended with %v", err)
		}
		d.quiet()
	}
}

// A daemon that runs already is used, and outlasts the program.
func TestEmbeddedUsesADaemon(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"))
	joined, input := s.embedded()
	if line := joined.log.all(); !strings.Contains(line, "listening at unix:"+d.socket) {
		t.Errorf("it reports %s", line)
	}
	input.Close()
	if err := joined.ended(); err != nil || !d.healthy() {
		t.Errorf("%v, and the daemon answers: %v", err, d.healthy())
	}
}
