//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// counts is a server at 127.0.0.1:8123 that says how many bytes a client has sent
// before it closed its direction, and writes a line when it listens.
const counts = `my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8123, Listen => 5, ReuseAddr => 1) or die "listen: $!";
$| = 1; print "ready\n"; while (my $c = $l->accept) { local $/; my $all = <$c>; print $c "got " . length($all) . "\n"; close $c }`

// keep starts a program that is ended with the test, and returns what it writes.
func (s *site) keep(args ...string) (*exec.Cmd, *bufio.Reader, *bytes.Buffer) {
	s.t.Helper()
	cmd, said := s.command(args...), &bytes.Buffer{}
	cmd.Stderr, cmd.WaitDelay = said, 10*time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(out), said
}

// forwarded starts port forward and returns where it listens.
func (s *site) forwarded(args ...string) (cmd *exec.Cmd, at string, said *bytes.Buffer) {
	s.t.Helper()
	cmd, out, said := s.keep(append([]string{"port", "forward", "--format", "json"}, args...)...)
	line, err := out.ReadBytes('\n')
	var v struct {
		Address string
		Port    int
	}
	if err == nil {
		err = json.Unmarshal(line, &v)
	}
	if err != nil || v.Port == 0 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s.t.Fatalf("%v: %s%s", err, line, said)
	}
	return cmd, v.Address, said
}

// counted sends bytes to the address and returns the answer.
func counted(t *testing.T, at string, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err == nil {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	data, _ := io.ReadAll(c)
	return string(data)
}

// TestPortCommand holds what the commands about ports do, without a daemon and
// with one, for both providers.
func TestPortCommand(t *testing.T) {
	for _, daemon := range []bool{false, true} {
		name := "alone"
		if daemon {
			name = "daemon"
		}
		t.Run(name, func(t *testing.T) {
			providers(t, func(t *testing.T, wall string, s *site) {
				if wall == "local" && !daemon {
					portAlone(t, s)
					return
				}
				s.env = append(s.env, "SANDBOX_CONFIG="+settingsFile(t, wall))
				if daemon {
					sock := filepath.Join(t.TempDir(), "d.sock")
					d := s.server(sock)
					defer d.quiet()
					s.env = append(s.env, "SANDBOX_SERVER=unix:"+sock)
					defer func() { s.env = append(s.env, "SANDBOX_SERVER=") }() // the daemon ends before the site is cleared
				}
				portCommand(t, s, daemon)
			})
		})
	}
}

// portAlone holds that each command that uses a local sandbox without a daemon
// says that it has one of its own.
func portAlone(t *testing.T, s *site) {
	s.env = append(s.env, "SANDBOX_CONFIG="+settingsFile(t, "local"))
	if out, err := s.command("run", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := s.command("port", "list").CombinedOutput(); err != nil || !strings.Contains(string(out), "a local sandbox of its own") {
		t.Errorf("%v: %s", err, out)
	}
	cmd, at, said := s.forwarded("0:8123")
	if got := counted(t, at, "x"); got != "" {
		t.Errorf("%q", got)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "a local sandbox of its own") || !strings.Contains(said.String(), "PROVIDER.UNAVAILABLE") {
		t.Errorf("%v: %s", err, said)
	}
}

func portCommand(t *testing.T, s *site, daemon bool) {
	fails := func(status int, text string, args ...string) {
		t.Helper()
		out, err := s.command(args...).CombinedOutput()
		if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != status || !strings.Contains(string(out), text) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	for _, c := range []string{"forward", "list"} {
		args := []string{"port", c, "--session", "none"}
		if c == "forward" {
			args = append(args, "8123")
		}
		fails(125, "SANDBOX.NOT_FOUND", args...)
	}
	_, out, _ := s.keep("run", "--", "perl", "-MIO::Socket::INET", "-e", counts)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}

	list := s.command("port", "list", "--format", "json")
	data, err := list.Output()
	var listed struct {
		Sandbox string
		Ports   []struct {
			Address, Command string
			Port, PID        int
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &listed)
	}
	if err != nil || len(listed.Ports) != 1 || listed.Ports[0].Address != "127.0.0.1" || listed.Ports[0].Port != 8123 || listed.Ports[0].PID <= 0 || !strings.HasPrefix(listed.Ports[0].Command, "perl -MIO::Socket::INET -e") {
		t.Errorf("%v: %s", err, data)
	}
	if data, err := s.command("port", "list").Output(); err != nil || !strings.Contains(string(data), "perl -MIO::Socket::INET") {
		t.Errorf("%v: %s", err, data)
	}

	cmd, at, said := s.forwarded("0:8123")
	if host, _, _ := net.SplitHostPort(at); host != "127.0.0.1" {
		t.Errorf("it listens at %s", at)
	}
	for _, n := range []int{0, 5, 3 << 20} {
		if got, want := counted(t, at, strings.Repeat("x", n)), fmt.Sprintf("got %d\n", n); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	fails(125, "LOCAL:PORT", "port", "forward", strings.TrimPrefix(at, "127.0.0.1:")+":8123")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || said.Len() > 0 {
		t.Errorf("%v: %s", err, said)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("something listens after the end")
	}

	// A program that does not listen closes connections and says so; the forward
	// stays. A signal ends connections that are open.
	cmd, out, said = s.keep("port", "forward", "0:8124")
	line, err := out.ReadString('\n')
	at, _, _ = strings.Cut(strings.TrimPrefix(line, "listening at "), " ")
	if err != nil {
		t.Fatal(err, line)
	}
	if got := counted(t, at, "x"); got != "" {
		t.Errorf("%q", got)
	}
	if got := counted(t, at, "x"); got != "" {
		t.Errorf("%q", got)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 || strings.Count(said.String(), "PROVIDER.UNAVAILABLE") != 2 || !strings.Contains(said.String(), "hint: start one that listens") {
		t.Errorf("%v: %s", err, said)
	}

	if !daemon {
		for _, args := range [][]string{{"share", "8123"}, {"shares"}, {"revoke", "x"}} {
			fails(125, "SANDBOX.UNSUPPORTED", append([]string{"port"}, args...)...)
			fails(125, "hint: start one", append([]string{"port"}, args...)...)
		}
		return
	}
	made, err := s.command("port", "share", "8123", "--for", "10m").Output()
	if link := strings.TrimSpace(string(made)); err != nil || !strings.HasPrefix(link, "http://8123-") || !strings.Contains(link, "sandbox-share=") {
		t.Errorf("%v: %s", err, made)
	}
	data, err = s.command("port", "shares", "--format", "json").Output()
	var shares struct {
		Shares []struct {
			ID      string
			Port    int
			Created time.Time
			Expires time.Time
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &shares)
	}
	if err != nil || len(shares.Shares) != 1 || shares.Shares[0].Port != 8123 || shares.Shares[0].Expires.Sub(shares.Shares[0].Created).Round(time.Minute) != 10*time.Minute {
		t.Fatalf("%v: %s", err, data)
	}
	if data, err := s.command("port", "revoke", shares.Shares[0].ID).Output(); err != nil || string(data) != "revoked "+shares.Shares[0].ID+"\n" {
		t.Errorf("%v: %s", err, data)
	}
	fails(125, "SANDBOX.NOT_FOUND", "port", "revoke", shares.Shares[0].ID)
	if data, err := s.command("port", "shares", "--format", "json").Output(); err != nil || !strings.Contains(string(data), `"shares": []`) {
		t.Errorf("%v: %s", err, data)
	}
}
