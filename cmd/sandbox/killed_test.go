package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// nearby is a host of the test at an address of this machine that programs
// do not leave their proxy aside for.
type nearby struct {
	at   string
	hits atomic.Int64
}

func newNearby(t *testing.T) *nearby {
	t.Helper()
	n, end, err := openNearby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return n
}

func openNearby() (n *nearby, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		return nil, nil, err
	}
	n = &nearby{at: l.Addr().String()}
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.hits.Add(1)
		io.WriteString(w, "hello from nearby\n")
	})}
	go s.Serve(l)
	return n, func() { s.Close() }, nil
}

// TestKilledProgramLeavesNoEgress kills the program in the middle of a command
// that reaches a host, and looks from inside: its port is dead, and the next
// program has a way of its own, with the rules that hold then.
func TestKilledProgramLeavesNoEgress(t *testing.T) {
	t.Parallel()
	t.Run("docker", func(t *testing.T) { killedProgram(t, newSite(t), "docker") })
	t.Run("local", func(t *testing.T) {
		testenv.Require(t, "local")
		s := &site{t: t, state: filepath.Join(t.TempDir(), "state")}
		s.env = append(os.Environ(), "SANDBOX_GUEST="+testenv.Guest(t), "SANDBOX_STATE_DIR="+s.state, "DOCKER_HOST=unix:///none.sock")
		killedProgram(t, s, "local")
	})
}

func killedProgram(t *testing.T, s *site, provider string) {
	host, other := newNearby(t), newNearby(t)
	dir := t.TempDir()
	run := func(allow *nearby, line string) *exec.Cmd {
		file := filepath.Join(dir, strings.ReplaceAll(allow.at, ":", "-"))
		text := fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"provider": %q, "network": {"allowedDomains": [%q]}}}}}`, provider, allow.at)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.command("--config", file, "run", "--", "sh", "-c", line)
	}
	fetch := "curl -s --max-time 20 http://"
	first := run(host, `echo "$HTTP_PROXY"; setsid sh -c 'while :; do `+fetch+host.at+`/; done' & wait`)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	first.Stderr = os.Stderr
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(out)
	proxy, _ := br.ReadString('\n')
	proxy = strings.TrimSpace(proxy)
	if line, _ := br.ReadString('\n'); line != "hello from nearby\n" || proxy == "" {
		t.Errorf("the proxy is %q, and the first answer %q", proxy, line)
	}
	first.Process.Kill()
	first.Wait()
	before := host.hits.Load() // what was under way may still come
	for range 3 {
		line := fmt.Sprintf("curl -sS --max-time 20 -x '%s' http://%s/; %s%s/; %s%s/", proxy, host.at, fetch, other.at, fetch, host.at)
		b, err := run(other, line).Output()
		text := string(b)
		if err != nil || strings.Count(text, "hello from nearby") != 1 || strings.Count(text, "rule: ") != 1 {
			t.Errorf("after the program was killed: %s, %v", text, err)
		}
	}
	if n := host.hits.Load() - before; n > 1 {
		t.Errorf("%d requests came through", n)
	}
}
