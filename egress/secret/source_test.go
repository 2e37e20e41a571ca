package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestValuesRefused(t *testing.T) {
	tests := []struct{ name, value, why string }{
		{"empty", "", "is not set"},
		{"short", "1234567", "shorter than 8"},
		{"short without its line ending", "1234567\n", "shorter than 8"},
		{"line break", "s3cr3t-1\nX-Evil: 1", "line break"},
		{"carriage return", "s3cr3t-1\rX-Evil: 1", "line break"},
		{"two line endings", "s3cr3t-12\n\n", "line break"},
		{"NUL", "s3cr3t-1\x00", "control character"},
		{"escape", "s3cr3t-1\x1b[0m", "control character"},
		{"tab", "s3cr3t\t-1234", "control character"},
		{"DEL", "s3cr3t-1\x7f", "control character"},
		{"space in front", " s3cr3t-123", "space"},
		{"space behind", "s3cr3t-123 ", "space"},
		{"too long", strings.Repeat("s3cr3t", maxValue/6+1), "more than 16384"},
		{"a stand-in", standInPrefix + "abcdefg", "stand-in"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig()
			r.env["TOKEN"] = tt.value
			_, err := r.try(t, "TOKEN@h.example")
			refused(t, err, sandbox.CodeValidation, tt.why)
			if tt.value == "" {
				return
			}
			path := filepath.Join(t.TempDir(), "s")
			write(t, path, tt.value)
			_, err = r.try(t, "TOKEN=file:"+path+"@h.example")
			refused(t, err, sandbox.CodeValidation, tt.why)
			if _, err = r.try(t, "TOKEN=command:cat "+path+"@h.example"); err == nil {
				t.Error("a command may print it")
			}
		})
	}
}

func TestValuesTaken(t *testing.T) {
	for name, tt := range map[string]struct{ read, want string }{
		"plain": {"12345678", "12345678"}, "line ending": {"12345678\n", "12345678"}, "of Windows": {"12345678\r\n", "12345678"},
		"spaces inside": {"user and password", "user and password"}, "odd signs": {value, value}, "longest": {strings.Repeat("x", maxValue), strings.Repeat("x", maxValue)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			write(t, path, tt.read)
			s := newRig().set(t, "A=file:"+path+"@h.example")
			if got, err := swapped(t, s, "h.example", "Bearer "+s.Env()["A"]); got != "Bearer "+tt.want {
				t.Errorf("got %.60q, %v", got, err)
			}
		})
	}
}

func TestFilesRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(path("dir"), 0o700))
	must(t, syscall.Mkfifo(path("pipe"), 0o600))
	write(t, path("open"), value)
	must(t, os.Chmod(path("open"), 0o602))
	write(t, path("long"), strings.Repeat("x", maxSource+1))
	must(t, os.Symlink("loop", path("loop")))
	for name, why := range map[string]string{
		"none": "cannot be read", "dir": "not a regular file", "pipe": "not a regular file", "open": "everybody may write",
		"long": "more than 65536", "loop": "cannot be read",
	} {
		_, err := newRig().try(t, "TOKEN=file:"+path(name)+"@h.example")
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", name, err, why)
		}
	}
}

// TestFileIsFollowed checks that the current content of a file is used, that
// an unusable one refuses requests, and that every earlier value stays
// scrubbed.
func TestFileIsFollowed(t *testing.T) {
	r := newRig()
	path := filepath.Join(t.TempDir(), "s")
	write(t, path, "first-value-1")
	s := r.set(t, "A=file:"+path+"@h.example")
	field := s.Env()["A"]
	swap := func(want string) {
		t.Helper()
		if got, err := swapped(t, s, "h.example", field); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	swap("first-value-1")
	replace := func(content string) { // atomically, like programs that write such files
		write(t, path+".new", content)
		must(t, os.Rename(path+".new", path))
	}
	replace("second-value-2\n")
	swap("second-value-2")
	must(t, os.Remove(path))
	if got, err := swapped(t, s, "h.example", field); err == nil || got != field {
		t.Errorf("without the file: %q, %v", got, err)
	}
	replace("third-value-33")
	if _, err := swapped(t, s, "h.example", field); err == nil {
		t.Error("the failure was forgotten at once")
	}
	r.now = r.now.Add(failureAge)
	swap("third-value-33")
	for _, v := range []string{"first-value-1", "second-value-2", "third-value-33"} {
		if got := s.ScrubString("x " + v); got != "x "+field {
			t.Errorf("%s comes back as %q", v, got)
		}
	}
}

func TestHomeIsReplaced(t *testing.T) {
	d := newRig().deps()
	d.Home = t.TempDir()
	write(t, filepath.Join(d.Home, "token"), value)
	s, err := NewSet(t.Context(), []Binding{{"A", []string{"h.example"}, Source{File: "~/token"}}}, d)
	must(t, err)
	s.Close()
}

// counting returns a command that prints a new value each time, and a function
// that counts its starts.
func counting(t *testing.T) (command []string, starts func() int) {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "give")
	must(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho x >>%s/starts\necho value-$(wc -l <%s/starts)-of-it\n", dir, dir), 0o700))
	return []string{script}, func() int {
		data, _ := os.ReadFile(filepath.Join(dir, "starts"))
		return strings.Count(string(data), "\n")
	}
}

func TestCommandCountsForAWhile(t *testing.T) {
	r := newRig()
	r.env["PATH"] = os.Getenv("PATH")
	command, starts := counting(t)
	s, err := NewSet(t.Context(), []Binding{{"A", []string{"h.example"}, Source{Command: command}}}, r.deps())
	must(t, err)
	defer s.Close()
	for i, step := range []struct {
		after  time.Duration
		starts int
	}{{0, 1}, {commandAge - time.Second, 1}, {time.Second, 2}, {time.Second, 2}, {-time.Hour, 3}} {
		r.now = r.now.Add(step.after)
		got, err := swapped(t, s, "h.example", s.Env()["A"])
		if want := fmt.Sprintf("value-%d-of-it", step.starts); err != nil || got != want || starts() != step.starts {
			t.Errorf("step %d: %q, %v after %d starts; want %q", i, got, err, starts(), want)
		}
	}
}

func TestCommandsThatFail(t *testing.T) {
	sh := func(line string) []string { return []string{"/bin/sh", "-c", line} }
	tests := []struct {
		name, why string
		command   []string
	}{
		{"status", "failed", sh("echo s3cr3t-1234; exit 3")},
		{"no such program", "failed", []string{"/nonexistent/program"}},
		{"not in PATH", "failed", []string{"no-such-program-here"}},
		{"too much", "prints too much", sh("head -c 70000 /dev/zero | tr '\\0' x")},
		{"without end", "prints too much", sh("yes s3cr3t")},
		{"nothing", "shorter than 8", sh("true")},
		{"two lines", "line break", sh("echo s3cr3t-1234; echo s3cr3t-5678")},
		{"on the error output", "shorter than 8", sh("echo s3cr3t-1234 >&2")},
		{"killed", "failed", sh("kill -9 $$")},
		{"reads", "shorter than 8", sh("cat")}, // there is no input
		{"leaves its output open", "stayed open", sh("echo s3cr3t-1234; sleep 1000 &")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig()
			r.env["PATH"] = os.Getenv("PATH")
			deps := r.deps()
			if tt.why == "stayed open" {
				deps.commandRest = 100 * time.Millisecond
			}
			_, err := NewSet(t.Context(), []Binding{{"A", []string{"h.example"}, Source{Command: tt.command}}}, deps)
			if err == nil || !strings.Contains(err.Error(), tt.why) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v, want %q", err, tt.why)
			}
		})
	}
}

// TestCommandIsEnded checks that a command that takes too long is ended with
// its child processes.
func TestCommandIsEnded(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	alive := make(chan *os.File, 1)
	go func() {
		defer cancel()
		f, err := os.Open(pipe)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.ReadFull(f, make([]byte, len("both"))); err != nil {
			t.Error(err)
		}
		alive <- f
	}()
	line := "exec 3>" + pipe + "; sleep 1000 & echo both >&3; wait" // both have the pipe open while they run
	_, err := NewSet(ctx, []Binding{{"A", []string{"h.example"}, Source{Command: []string{"/bin/sh", "-c", line}}}}, newRig().deps())
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	f := <-alive
	defer f.Close()
	must(t, f.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := io.ReadAll(f); err != nil {
		t.Errorf("a process is still there: %v", err)
	}
}

// TestCommandEnvironment checks that a command gets no more than it needs.
func TestCommandEnvironment(t *testing.T) {
	r := newRig()
	r.env["HOME"], r.env["AWS_SECRET_ACCESS_KEY"] = "/home/me", "s3cr3t-of-aws"
	t.Setenv("SANDBOX_TEST_LEAK", "s3cr3t-of-ours")
	dir := t.TempDir()
	line := "env >" + dir + "/env; pwd >" + dir + "/pwd; echo some-value"
	s, err := NewSet(t.Context(), []Binding{{"A", []string{"h.example"}, Source{Command: []string{"/bin/sh", "-c", line}}}}, r.deps())
	must(t, err)
	s.Close()
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	pwd, _ := os.ReadFile(filepath.Join(dir, "pwd"))
	if !strings.Contains(string(env), "HOME=/home/me\n") || strings.Contains(string(env), "s3cr3t") || string(pwd) != "/\n" {
		t.Errorf("in %s with %s", pwd, env)
	}
}

// TestValuesComeToAnEnd checks that a source that returns a new value each
// time is refused in the end, because all of them stay scrubbed.
func TestValuesComeToAnEnd(t *testing.T) {
	r := newRig()
	path := filepath.Join(t.TempDir(), "s")
	write(t, path, "value-number-0")
	s := r.set(t, "A=file:"+path+"@h.example")
	h := s.in.secrets[0]
	for i := 1; i < maxSeen; i++ {
		h.seen = append(h.seen, fmt.Appendf(nil, "value-number-%d", i))
	}
	write(t, path, "value-number-too-many")
	_, err := swapped(t, s, "h.example", s.Env()["A"])
	refused(t, err, sandbox.CodeUnavailable, "has had 1024 values")
}
