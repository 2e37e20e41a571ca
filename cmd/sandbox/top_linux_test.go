//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A topScreen is a program on a pseudo terminal, with what a terminal shows of it.
type topScreen struct {
	t        *testing.T
	cmd      *exec.Cmd
	terminal *os.File // the terminal's end
	line     *os.File // the program's end, which stays open so that its mode can be read
	mode     unix.Termios
	ended    chan error

	mu   sync.Mutex
	cond *sync.Cond
	emu  *vt.Emulator
	raw  strings.Builder
	over bool // the deadline of a wait, or the end of the output
}

// onScreen starts the program on a terminal of that size.
func onScreen(t *testing.T, cmd *exec.Cmd, cols, rows int) *topScreen {
	t.Helper()
	terminal, line, err := pty.Open()
	if err != nil {
		testenv.Lack(t, "pty", err)
	}
	s := &topScreen{t: t, cmd: cmd, terminal: terminal, line: line, emu: vt.NewEmulator(cols, rows), ended: make(chan error, 1)}
	s.cond = sync.NewCond(&s.mu)
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)}); err != nil {
		t.Fatal(err)
	}
	s.mode = s.termios()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- cmd.Wait() }()
	go io.Copy(terminal, s.emu) // what the terminal answers
	go s.read()
	t.Cleanup(func() {
		cmd.Process.Kill()
		line.Close()
		terminal.Close()
		// The emulator's own Close writes what its Read looks at.
		if answers, ok := s.emu.InputPipe().(io.Closer); ok {
			answers.Close()
		}
	})
	return s
}

func (s *topScreen) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.terminal.Read(buf)
		s.mu.Lock()
		s.raw.Write(buf[:n])
		s.emu.Write(buf[:n])
		s.over = s.over || err != nil
		s.cond.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *topScreen) termios() unix.Termios {
	s.t.Helper()
	m, err := unix.IoctlGetTermios(int(s.line.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *m
}

// lines are those on the screen, without spaces at their ends.
func (s *topScreen) lines() []string {
	var out []string
	for y := range s.emu.Height() {
		var b strings.Builder
		for x := 0; x < s.emu.Width(); x++ {
			c := s.emu.CellAt(x, y)
			if c == nil || c.Content == "" {
				b.WriteByte(' ')
				continue
			}
			b.WriteString(c.Content)
			x += max(c.Width, 1) - 1
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

// until waits until the screen is as so says, and returns its lines.
func (s *topScreen) until(what string, so func(lines []string) bool) []string {
	s.t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.cond.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		lines := s.lines()
		if so(lines) {
			return lines
		}
		if late || s.over {
			s.t.Fatalf("the screen never has %s:\n%s", what, strings.Join(lines, "\n"))
		}
		s.cond.Wait()
	}
}

// shows waits until a line has all of the texts.
func (s *topScreen) shows(texts ...string) []string {
	s.t.Helper()
	return s.until(strings.Join(texts, " and "), func(lines []string) bool { return has(lines, texts...) != "" })
}

// has returns the first line with all of the texts, or nothing.
func has(lines []string, texts ...string) string {
	for _, l := range lines {
		all := true
		for _, t := range texts {
			all = all && strings.Contains(l, t)
		}
		if all {
			return l
		}
	}
	return ""
}

func (s *topScreen) types(keys string) {
	s.t.Helper()
	if _, err := s.terminal.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *topScreen) resize(cols, rows int) {
	s.t.Helper()
	s.mu.Lock()
	s.emu.Resize(cols, rows)
	s.mu.Unlock()
	if err := pty.Setsize(s.terminal, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)}); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end of the program, and checks that the terminal is as before.
func (s *topScreen) end(status int) {
	s.t.Helper()
	var err error
	select {
	case err = <-s.ended:
	case <-time.After(time.Minute):
		s.t.Fatal("the program does not end")
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	if got := s.cmd.ProcessState.ExitCode(); got != status || err != nil && exit == nil {
		s.t.Errorf("status %d, want %d: %v", got, status, err)
	}
	if now := s.termios(); now != s.mode {
		s.t.Errorf("the terminal's mode is %+v, and was %+v", now, s.mode)
	}
	s.until("the first screen, with the cursor", func([]string) bool {
		raw := s.raw.String()
		return strings.LastIndex(raw, "\x1b[?1049l") > strings.LastIndex(raw, "\x1b[?1049h") && strings.LastIndex(raw, "\x1b[?25h") > strings.LastIndex(raw, "\x1b[?25l")
	})
}

// written returns all that was written, once that has the texts.
func (s *topScreen) written(texts ...string) string {
	s.t.Helper()
	s.until(strings.Join(texts, " and "), func([]string) bool {
		for _, t := range texts {
			if !strings.Contains(s.raw.String(), t) {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

// localSite is a site whose sandboxes are made by bubblewrap.
func localSite(t *testing.T) *site {
	t.Helper()
	testenv.Require(t, "local")
	s := &site{t: t, state: filepath.Join(t.TempDir(), "state")}
	settings := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(settings, []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "SANDBOX_GUEST="+testenv.Guest(t), "SANDBOX_STATE_DIR="+s.state, "SANDBOX_CONFIG="+settings, "DOCKER_HOST=unix:///none.sock", "TERM=xterm-256color", "COLORTERM=", "LANG=C.UTF-8")
	return s
}

// running starts a command in a sandbox and returns when it has begun. The
// function ends it.
func (s *site) running(script string, args ...string) (end func()) {
	s.t.Helper()
	cmd := s.command(args...)
	cmd.Args = append(cmd.Args, "run", "--", "sh", "-c", script)
	cmd.Args = append(cmd.Args, "name\x1b]0;owned\x07\x1b[31m")
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	end = sync.OnceFunc(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	s.t.Cleanup(end)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
		s.t.Fatalf("%q, %v", line, err)
	}
	return end
}

// TestTop watches sandboxes of this machine in the sizes 80x24 and 200x50.
func TestTop(t *testing.T) {
	t.Parallel()
	s := localSite(t)
	end := s.running("echo begun; echo one >log; sleep 600", "--session", "web", "--agent", "coder")
	s.running("echo begun; echo first >server.log; while sleep 0.1; do printf 'more \\033[2J\\n' >>server.log; done", "--session", "busy", "--tenant", "acme")
	p := onScreen(t, s.command("top", "--every", "1s"), 80, 24)
	p.shows("2 of 2 running", "this machine")
	lines := p.until("both sandboxes with their figures", func(l []string) bool {
		return has(l, "web", "run", "sh -c") != "" && has(l, "busy", "run", "sh -c", "▁") != "" && has(l, "q quit") != ""
	})
	if head := has(lines, "KEY"); !strings.Contains(head, "STAT CPU%       MEM      PIDS    DISK/s    NET/s     COMMAND") || has(lines, "TENANT") != "" {
		t.Errorf("the columns at 80: %q", head)
	}
	// A filter, and what it leaves.
	p.types("/acm\r")
	p.until("the filtered list", func(l []string) bool {
		return has(l, "filter acm") != "" && has(l, "web") == "" && has(l, "busy") != ""
	})
	// The details of what is left, as explain and the records say them.
	p.types("\r")
	p.shows("sbx-busy-")
	p.shows("provider", "local")
	p.types("2")
	p.shows("/workspace", "rw", "workspace")
	p.types("5")
	p.shows("Nothing was recorded")
	p.types("4")
	p.shows("Nothing was stopped")
	if out, err := s.command("run", "--session", "busy", "--tenant", "acme", "--", "curl", "-sS", "http://example.com").CombinedOutput(); err == nil {
		t.Fatalf("curl: %s", out)
	}
	p.shows("deny", "example.com") // while it is looked at
	p.resize(200, 50)
	p.until("the wide list", func(l []string) bool {
		return has(l, "KEY", "NAME", "PROVIDER", "TENANT", "AGENT", "IDLE") != "" && has(l, "acme", "main") != ""
	})
	// A log.
	p.types("\x1b")
	p.until("the list alone", func(l []string) bool { return has(l, "Violations") == "" })
	p.types("l")
	p.shows("follow the file: /workspace/")
	p.types("server.log\r")
	p.shows(`more \x1b[2J`)
	p.types("g")
	p.shows("first")
	p.types("q")
	p.shows("KEY", "NAME")
	// A shell, and back.
	p.types("s")
	p.shows("A shell in sbx-busy-")
	p.types("echo $((6*7))x\r")
	p.shows("42x")
	p.types("exit\r")
	p.until("the list again", func(l []string) bool { return has(l, "KEY", "NAME") != "" && has(l, "42x") == "" })
	p.resize(80, 24)
	// Without the filter; the selected sandbox disappears.
	p.types("\x1b")
	p.shows("web")
	p.types("G\x1b[H") // the end, and home
	end()
	if out, err := s.command("recreate", "--session", "web", "--agent", "coder", "--force").CombinedOutput(); err != nil {
		t.Fatalf("recreate: %v\n%s", err, out)
	}
	p.until("one sandbox", func(l []string) bool { return has(l, "1 of 1 running") != "" && has(l, "web") == "" })
	// Remove asks, and takes no for an answer.
	p.types("x")
	p.shows("Remove sbx-busy-", "[y/N]")
	p.types("n")
	p.shows("nothing was done")
	p.types("x")
	p.shows("[y/N]")
	p.types("y")
	p.shows("there is none")
	p.types("q")
	p.end(0)
	if raw := p.written(); strings.Contains(raw, "owned\x07") || strings.Contains(raw, "more \x1b") {
		t.Error("what code inside controls has reached the terminal")
	}
}

// TestTopEndsWell holds that the terminal is as before after a signal, and that
// NO_COLOR is heeded.
func TestTopEndsWell(t *testing.T) {
	t.Parallel()
	s := localSite(t)
	s.env = append(s.env, "NO_COLOR=1")
	for sig, status := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		p := onScreen(t, s.command("top"), 80, 24)
		p.shows("there is none")
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		p.end(status)
		for _, colour := range []string{"\x1b[3", "\x1b[9", "\x1b[4", "\x1b[1;3", ";38;", "\x1b[38"} {
			for i := 1; i < 8; i++ {
				if seq := colour + string(rune('0'+i)) + "m"; strings.Contains(p.written(), seq) {
					t.Errorf("%q was written in spite of NO_COLOR", seq)
				}
			}
		}
	}
	p := onScreen(t, s.command("top"), 80, 24)
	p.shows("there is none")
	p.types("\x03")
	p.end(0)
}

// TestTopThroughDaemon watches sandboxes of a daemon that stops and comes back, and
// acts on them.
func TestTopThroughDaemon(t *testing.T) {
	t.Parallel()
	s := localSite(t)
	socket := filepath.Join(t.TempDir(), "d.sock")
	d := s.server(socket)
	server := "unix:" + socket
	if out, err := s.command("--server", server, "run", "--session", "far", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	p := onScreen(t, s.command("--server", server, "top", "--every", "1s"), 100, 30)
	p.until("the sandbox", func(l []string) bool { return has(l, "sandbox top", socket[:20]) != "" && has(l, "far", "main") != "" })
	p.types("f")
	p.shows("far", "froz")
	p.types("f")
	p.shows("far", " run ")
	p.types("s")
	p.shows("A shell in sbx-far-")
	p.types("echo $((6*7))x\r")
	p.shows("42x")
	p.types("exit\r")
	p.until("the list again", func(l []string) bool { return has(l, "KEY", "AGENT") != "" && has(l, "42x") == "" })
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
	p.until("that the daemon does not answer, and the last list", func(l []string) bool { return has(l, "as of ") != "" && has(l, "far", "main") != "" })
	s.server(socket)
	p.until("the daemon again", func(l []string) bool { return has(l, "as of ") == "" && has(l, "far", "main") != "" })
	p.types("r")
	p.shows("Build sbx-far-", "[y/N]")
	p.types("y")
	p.until("the new one", func(l []string) bool { return has(l, "built anew: sbx-far-") != "" && has(l, "far", "main") != "" })
	p.types("x")
	p.shows("Remove sbx-far-", "[y/N]")
	p.types("y")
	p.shows("there is none")
	p.types("q")
	p.end(0)
}

// under returns what the line with the texts has below a title of the list, whose
// figures have four columns.
func under(lines []string, title string, texts ...string) string {
	before, _, ok := strings.Cut(has(lines, "KEY", title), title)
	at, line := len([]rune(before)), []rune(has(lines, texts...))
	if !ok || len(line) < at+4 {
		return ""
	}
	return strings.TrimSpace(string(line[at : at+4]))
}

// TestTopEgress watches sandboxes of a daemon of which one reaches hosts: its bytes are
// those that the proxy counts, the decisions are in the details, and of the commands
// that the daemon keeps each has a log to choose.
func TestTopEgress(t *testing.T) {
	t.Parallel()
	s, near := localSite(t), newNearby(t)
	settings := filepath.Join(t.TempDir(), "settings.json")
	text := `{"agents": {"defaults": {"sandbox": {"provider": "local", "network": {"allowedDomains": ["` + near.at + `"]}}}}}`
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "SANDBOX_CONFIG="+settings)
	socket := filepath.Join(t.TempDir(), "d.sock")
	me := s.server(socket).own("")
	must[api.Sandbox](t, me, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "quiet"})
	box := must[api.Sandbox](t, me, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "busy"})
	path := "/v1/sandboxes/" + box.Name + "/processes"
	must[api.Process](t, me, "POST", path, api.StartProcess{Exec: api.Exec{Line: "while sleep 0.1 && [ ! -e enough ]; do curl -sS http://" + near.at + "/; done"}})
	p := onScreen(t, s.command("--server", "unix:"+socket, "top", "--every", "1s"), 120, 30)
	p.until("bytes of the sandbox that reaches a host alone", func(l []string) bool {
		net := under(l, "NET/s", "busy", "main")
		return net != "" && net != "-" && net != "0" && under(l, "NET/s", "quiet", "main") == "-"
	})
	p.types("/busy\r\r3")
	p.shows("allow", near.at)
	must[api.Process](t, me, "POST", path, api.StartProcess{Exec: api.Exec{Line: "touch enough; sleep 0.5; curl -sS http://never.example/; echo the second; sleep 600"}})
	p.shows("deny", "never.example")
	p.types("\x1b")
	p.until("the list alone", func(l []string) bool { return has(l, "Violations") == "" && has(l, "busy", "main") != "" })
	p.types("l")
	p.until("both logs to choose from", func(l []string) bool { return has(l, near.at) != "" && has(l, "the second") != "" })
	p.types("k\r")
	p.shows("hello from nearby")
	p.types("q")
	p.shows("KEY", "NET/s")
	p.types("l")
	p.until("the logs again", func(l []string) bool { return has(l, "the second; sleep") != "" })
	p.types("\r")
	p.until("the log of the second", func(l []string) bool { return slices.Contains(l, "the second") && has(l, "hello from nearby") == "" })
	p.types("qq")
	p.end(0)
}

// TestTopElsewhere holds what top writes where there is no terminal.
func TestTopElsewhere(t *testing.T) {
	t.Parallel()
	s := localSite(t)
	s.running("echo begun; sleep 600", "--session", "web", "--agent", "coder")
	out, err := s.command("top").CombinedOutput()
	if err != nil || strings.ContainsAny(string(out), "\x1b\r\x07") || has(strings.Split(string(out), "\n"), "web", "run", "coder", "sh -c echo begun; sleep 600") == "" {
		t.Errorf("a picture: %v\n%q", err, out)
	}
	out, err = s.command("top", "-o", "json", "--filter", "web").Output()
	var picture cli.TopPicture
	if err := errors.Join(err, json.Unmarshal(out, &picture)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(picture.Sandboxes) != 1 || picture.Sandboxes[0].Figures == nil || picture.Sandboxes[0].Figures.Memory <= 0 || !strings.HasPrefix(picture.Sandboxes[0].Figures.Command, "sh -c echo begun") || picture.Sandboxes[0].Session != "web" {
		t.Errorf("as JSON: %s", out)
	}
	for _, c := range []struct {
		args []string
		env  string
		want string
	}{
		{[]string{"top", "--sort", "x"}, "TERM=xterm", "--sort"},
		{[]string{"top", "now"}, "TERM=xterm", "takes no arguments"},
	} {
		cmd := s.command(c.args...)
		cmd.Env = append(cmd.Env, c.env)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v, %s", c.args, err, out)
		}
	}
	dumb := s.command("top")
	dumb.Env = append(dumb.Env, "TERM=dumb")
	p := onScreen(t, dumb, 80, 24)
	if err := <-p.ended; err == nil {
		t.Error("a dumb terminal is drawn on")
	}
	if raw := p.written("--once"); strings.Contains(raw, "\x1b") {
		t.Errorf("on a dumb terminal: %q", raw)
	}
}
