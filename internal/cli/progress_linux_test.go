package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorkLine holds what is shown of long work, with and without a known total.
func TestWorkLine(t *testing.T) {
	w := func(one, many string, done, total, besides int64) *work {
		w := &work{what: "working", one: one, many: many}
		w.done.Store(done)
		w.total.Store(total)
		w.besides.Store(besides)
		return w
	}
	for _, tt := range []struct {
		w    *work
		took time.Duration
		want string
	}{
		{w("", "", 512<<10, 1<<20, 0), 2 * time.Second, "[############............]  50%  512KiB/1MiB  256KiB/s  working"},
		{w("", "", 512<<10, 0, 0), 2 * time.Second, "| working  512KiB  256KiB/s"},
		{w("sandbox", "sandboxes", 5, 20, 0), 100 * time.Millisecond, "[######..................]  25%  5/20 sandboxes  working"},
		{w("entry", "entries", 1, 0, 4<<20), 2200 * time.Millisecond, "- working  1 entry  4MiB  1.818MiB/s"},
		{w("entry", "entries", 0, 0, 0), 3 * time.Second, "- working  3s"},
		{w("", "", 0, 0, 0), 0, "| working  0s"},
	} {
		if got := tt.w.line(tt.took, 79); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if got := w("", "", 1, 2, 0).line(0, 10); got != "[########…" {
		t.Errorf("on a narrow terminal: %q", got)
	}
}

// TestProgressOfCheckpoint has a checkpoint made on a terminal: the work goes on
// until its progress is on the screen. The line is taken away before anything else
// is written. With --quiet, -o json and elsewhere there is none.
func TestProgressOfCheckpoint(t *testing.T) {
	run := func(t *testing.T, errs *os.File, copying func(func(entries, bytes int64)), args ...string) string {
		t.Helper()
		f := withCheckpoints()
		f.checkpoints.copying = copying
		out, done := collect(t)
		p := Program{Args: append([]string{"sandbox", "checkpoint", "create", "--session", "chat\x1b[2J"}, args...), Stdin: os.Stdin, Stdout: out, Stderr: errs, Backend: f, Exit: func(int) {}}
		if status := p.Run(context.Background()); status != 0 {
			t.Errorf("status %d", status)
		}
		return done()
	}
	t.Run("terminal", func(t *testing.T) {
		host, caller := openPTY(t)
		seen, screen := make(chan struct{}), make(chan string)
		go func() {
			var all []byte
			buf := make([]byte, 4096)
			for once := true; ; {
				n, err := host.Read(buf)
				all = append(all, buf[:n]...)
				if once && strings.Contains(string(all), "3 entries  2MiB") {
					once = false
					close(seen)
				}
				if err != nil || strings.Contains(string(all), "the end") {
					screen <- string(all)
					return
				}
			}
		}()
		run(t, caller, func(progress func(entries, bytes int64)) {
			progress(3, 2<<20)
			<-seen
		})
		io.WriteString(caller, "the end")
		all := <-screen
		if strings.Contains(all, "chat\x1b[2J") || !strings.Contains(all, `chat\x1b[2J`) {
			t.Errorf("the session is written as it is: %q", all)
		}
		if !strings.Contains(all, "\r\x1b[K") || strings.LastIndex(all, "entries") > strings.LastIndex(all, "\r\x1b[K") {
			t.Errorf("the line stays: %q", all)
		}
	})
	// Twenty seconds of work, in which there would be many pictures.
	long := func(t *testing.T, errs *os.File, args ...string) {
		synctest.Test(t, func(t *testing.T) {
			a := &app{Program: Program{Stderr: errs}, globals: newGlobals()}
			quiet := false
			for _, arg := range args {
				quiet = quiet || arg == "--quiet"
				if arg == "json" {
					a.globals.format.value = formatJSON
				}
			}
			w := &work{what: "working"}
			b := a.newBar(t.Context(), quiet, w.line)
			time.Sleep(2*reportEvery + drawEvery/2)
			b.stop()
			b.stop()
		})
	}
	for name, args := range map[string][]string{"quiet": {"--quiet"}, "json": {"-o", "json"}} {
		t.Run(name, func(t *testing.T) {
			errs, said := collect(t)
			long(t, errs, args...)
			if got := said(); got != "" {
				t.Errorf("it writes %q", got)
			}
		})
	}
	t.Run("lines elsewhere", func(t *testing.T) {
		errs, said := collect(t)
		long(t, errs)
		if got, want := said(), "sandbox: / working  10s\nsandbox: - working  20s\n"; strings.Count(got, "sandbox: ") != 2 || strings.Count(got, "working") != 2 || strings.Contains(got, "\x1b") {
			t.Errorf("it writes %q, want the like of %q", got, want)
		}
	})
	t.Run("short work elsewhere", func(t *testing.T) {
		errs, said := collect(t)
		run(t, errs, func(progress func(entries, bytes int64)) { progress(3, 2<<20) })
		if got := said(); strings.Contains(got, "entries") || strings.Contains(got, "\x1b") {
			t.Errorf("it writes %q", got)
		}
	})
}

// TestQuietFlags holds that commands with a bar can be quiet.
func TestQuietFlags(t *testing.T) {
	for _, line := range []string{
		"checkpoint create --quiet", "checkpoint export built -q -o " + filepath.Join(t.TempDir(), "x"), "checkpoint import -q -", "prune --quiet", "images build -q",
		"images pull --quiet x", "images build --quiet --base x",
	} {
		if r := call(t, withCheckpoints(), strings.Fields(line)...); r.status != 0 {
			t.Errorf("%s: status %d: %s", line, r.status, r.stderr)
		}
	}
}

// TestRedrawn holds that a table is drawn in its place, and anew where the terminal
// has another size.
func TestRedrawn(t *testing.T) {
	var out strings.Builder
	cols, rows := 40, 5
	r := &redrawn{out: &out, size: func() (int, int, error) { return cols, rows, nil }}
	draw := func(text string) string {
		out.Reset()
		if err := r.draw(text); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got, want := draw("a\nb\n"), "\ra\x1b[K\n\rb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	if got, want := draw("a\nb\nc\nd\ne\nf\n"), "\x1b[2A\ra\x1b[K\n\rb\x1b[K\n\rc\x1b[K\n\r… and 3 more; the terminal has no room …\x1b[K\n\x1b[J"; got != want {
		t.Errorf("too many lines %q, want %q", got, want)
	}
	cols = 20
	if got := draw("a\n"); !strings.HasPrefix(got, "\x1b[H\x1b[2J\ra") {
		t.Errorf("after a resize %q", got)
	}
	if got := draw("b\n"); !strings.HasPrefix(got, "\x1b[1A\rb") {
		t.Errorf("afterwards %q", got)
	}
}
