//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
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

// A program that starts while a daemon ends gets one that does not.
func TestEmbeddedJoinsNoneThatEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings("", `, "daemon": {"drainTimeout": "20s"}`)
	d, input := s.embedded()
	for range 4 {
		in := d.own("acme")
		box := must[api.Sandbox](t, in, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "a"})
		res, err := in.ask("POST", "/v1/sandboxes/"+box.Name+"/exec", strings.NewReader(`{"line": "echo begun; sleep 0.5"}`), "Accept", api.ContentEvents)
		if err != nil {
			t.Fatal(err)
		}
		if !until(bufio.NewReader(res.Body), "begun") {
			t.Fatal("a command does not begin")
		}
		last := d
		input.Close() // the command holds up the end of the daemon
		d, input = s.embedded()
		if !d.healthy() {
			t.Fatal("a daemon that ends is said to listen")
		}
		if err := last.ended(); err != nil {
			t.Errorf("it has ended with %v", err)
		}
		res.Body.Close()
		if !d.healthy() {
			t.Fatal("the daemon has ended of which it was said that it listens")
		}
	}
	input.Close()
	if err := d.ended(); err != nil {
		t.Errorf("the last one has ended with %v", err)
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
	// Any of the others may have it. One that finds the next daemon before it has
	// missed the last says nothing of it.
	testenv.Success(t, func() error {
		if !second.healthy() {
			return errors.New("no other daemon answers at the address of the one that was killed")
		}
		return nil
	})
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
