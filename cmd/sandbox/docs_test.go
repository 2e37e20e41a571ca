package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestDocs runs the console blocks of README.md and of the pages in docs, and
// compares what they print with what the page shows.
//
// A block begins with ```console. A line that begins with "$ " is a command
// for bash, lines that begin with "> " continue it, and the lines up to the
// next command are its output on both streams. In the output … stands for any
// text of a line, and a line of … alone for any number of lines. A last line
// (exit N) is the exit status; a command without output has status 0. Empty
// lines at the end do not count. A command that ends with & runs until the
// block ends, and its output has ten seconds to appear.
//
// Each block begins in an empty folder, with a home and a state folder of its
// own, and with the program and the guest as they are shipped. What cannot run
// so is no console block: its page shows it as text or sh.
func TestDocs(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	testenv.Require(t, "local")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	bin := t.TempDir()
	buildProgram(t, filepath.Join(bin, "sandbox"), "")
	guest, err := os.ReadFile(testenv.Guest(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "sandbox-guest"), guest, 0o755); err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, path := range append([]string{filepath.Join(root, "README.md")}, pages...) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		found := consoleBlocks(string(page))
		if n := strings.Count(string(page), "```console"); n != len(found) {
			t.Errorf("%s has %d console blocks, %d of which begin a line", name, n, len(found))
		}
		for _, b := range found {
			blocks++
			t.Run(fmt.Sprintf("%s:%d", name, b.line), func(t *testing.T) {
				b.run(t, name, bin)
			})
		}
	}
	if blocks == 0 {
		t.Error("no page has a console block")
	}
}

// A consoleBlock is one block of a page, which begins at a line.
type consoleBlock struct {
	line  int
	steps []consoleStep
}

// A consoleStep is a command and the output that the page shows for it.
type consoleStep struct {
	line    int
	command string
	output  []string
}

// consoleBlocks returns the console blocks of a page.
func consoleBlocks(page string) []consoleBlock {
	var blocks []consoleBlock
	var open *consoleBlock
	for i, line := range strings.Split(page, "\n") {
		switch {
		case open == nil && line == "```console":
			open = &consoleBlock{line: i + 1}
		case open == nil:
		case line == "```":
			blocks, open = append(blocks, *open), nil
		case strings.HasPrefix(line, "$ "):
			open.steps = append(open.steps, consoleStep{line: i + 1, command: line[2:]})
		case len(open.steps) == 0:
			open.steps = append(open.steps, consoleStep{line: i + 1, command: "false # the block begins with no command", output: []string{line}})
		default:
			s := &open.steps[len(open.steps)-1]
			if rest, ok := strings.CutPrefix(line, "> "); ok && len(s.output) == 0 {
				s.command += "\n" + rest
			} else {
				s.output = append(s.output, line)
			}
		}
	}
	if open != nil { // the page ends before the block does
		blocks = append(blocks, *open)
	}
	return blocks
}

// shown returns the output of s without empty lines at its end.
func (s consoleStep) shown() []string {
	lines := s.output
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// pattern returns an expression for the output of s, whose last line may be
// "(exit N)" where the command failed.
func (s consoleStep) pattern() *regexp.Regexp {
	lines := s.shown()
	var b strings.Builder
	b.WriteString(`^`)
	for _, line := range lines {
		if strings.TrimSpace(line) == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(strings.TrimRight(line, " "), "…") {
			if i > 0 {
				b.WriteString(`.*`)
			}
			b.WriteString(regexp.QuoteMeta(part))
		}
		b.WriteString(`[ ]*\n`)
	}
	b.WriteString(`\n*$`)
	return regexp.MustCompile(b.String())
}

// A listener keeps what is written to the other end of its pipe.
type listener struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // closed when text grows
}

// listen returns a listener and the end of its pipe that is written to. The
// listener ends when all who have that end have closed it.
func listen() (*listener, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	l := &listener{more: make(chan struct{})}
	go func() {
		defer r.Close()
		io.Copy(l, r)
	}()
	return l, w, nil
}

// Write implements io.Writer.
func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	close(l.more)
	l.more = make(chan struct{})
	return len(b), nil
}

// since returns the text from an offset on, and a channel that is closed when
// there is more.
func (l *listener) since(from int) (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[from:]), l.more
}

// browses reports whether a command of the block uses a browser.
func (b consoleBlock) browses() bool {
	return slices.ContainsFunc(b.steps, func(s consoleStep) bool {
		return strings.Contains(s.command, "sandbox") && strings.Contains(s.command, " browser ")
	})
}

// run runs the commands of a block in one shell.
func (b consoleBlock) run(t *testing.T, page, bin string) {
	if b.browses() {
		testenv.Require(t, "browser")
	}
	dir := t.TempDir()
	testenv.UnmountBelow(t, dir)
	for _, sub := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, output, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir + "/home", "SANDBOX_STATE_DIR=" + dir + "/state",
		"DOCKER_HOST=" + os.Getenv("DOCKER_HOST"), "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(),
	}
	shell := exec.Command("bash", "--noprofile", "--norc")
	shell.Dir = filepath.Join(dir, "work")
	shell.Env = env
	shell.Stdout, shell.Stderr = output, output
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = shell.Start()
	output.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The shell's own group: what a block left in the background ends too.
		syscall.Kill(-shell.Process.Pid, syscall.SIGTERM)
		in.Close()
		shell.Wait()
		kinds := []string{"--browser=false"}
		if b.browses() {
			kinds = append(kinds, "--browser")
		}
		for _, kind := range kinds {
			remove := exec.Command(filepath.Join(bin, "sandbox"), "recreate", "--all", "--force", kind)
			remove.Env = env
			if text, err := remove.CombinedOutput(); err != nil {
				t.Errorf("clean up: %v\n%s", err, text)
			}
		}
	})
	at := 0
	for _, s := range b.steps {
		want := s.pattern()
		end := fmt.Sprintf("end-of-step-%d ", s.line)
		fmt.Fprintf(in, "{ %s\n} </dev/null; printf '%s%%d\\n' $?\n", s.command, end)
		background := strings.HasSuffix(s.command, "&")
		late := time.After(3 * time.Minute)
		var got string
		for ended, over := false, false; ; {
			text, more := out.since(at)
			got = text
			var status int
			if before, after, ok := strings.Cut(got, end); ok && strings.Contains(after, "\n") {
				fmt.Sscan(after, &status)
				got = before
				_, rest, _ := strings.Cut(after, "\n")
				if got += rest; got != "" && !strings.HasSuffix(got, "\n") {
					got += "\n"
				}
				if status != 0 && (len(s.shown()) == 0 || !want.MatchString(got)) {
					got += fmt.Sprintf("(exit %d)\n", status)
				}
				if !ended && background {
					late = time.After(10 * time.Second)
				}
				ended = true
			}
			if over || ended && (!background || want.MatchString(got)) {
				at += len(text)
				break
			}
			select {
			case <-more:
			case <-late:
				over = true // what has come by now is looked at once more
			}
		}
		if !want.MatchString(got) {
			t.Errorf("%s:%d: $ %s\nprints\n%s\nwhich is not what the page shows:\n%s", page, s.line, s.command, got, strings.Join(s.output, "\n"))
			return
		}
	}
}

// TestConsoleBlocks checks what TestDocs takes for a block and for equal.
func TestConsoleBlocks(t *testing.T) {
	t.Parallel()
	blocks := consoleBlocks("# Page\n```console\n$ cat <<E\n> a\n> E\na\n\n$ true\n```\n```text\n$ false\n```\n")
	if len(blocks) != 1 || blocks[0].line != 2 || len(blocks[0].steps) != 2 {
		t.Fatalf("%+v", blocks)
	}
	if s := blocks[0].steps[0]; s.line != 3 || s.command != "cat <<E\na\nE" || !s.pattern().MatchString("a\n") || s.pattern().MatchString("") {
		t.Errorf("%+v", s)
	}
	if open := consoleBlocks("```console\n$ true\n"); len(open) != 1 || len(open[0].steps) != 1 {
		t.Errorf("a block without an end: %+v", open)
	}
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{"", "", true},
		{"", "x\n", false},
		{"took … ms", "took 1.5 ms\n", true},
		{"took … ms", "took\n1.5 ms\n", false},
		{"a.c", "abc\n", false},
		{"…\nlast", "a\nb\nlast\n", true},
		{"…\nlast", "a\nb\n", false},
		{"first\n…", "first\n", true},
		{"failed\n(exit 1)", "failed\n(exit 1)\n", true},
		{"failed\n(exit 1)", "failed\n(exit 2)\n", false},
		{"failed\n(exit 1)", "failed\n", false},
	} {
		if (consoleStep{output: strings.Split(c.shown, "\n")}).pattern().MatchString(c.printed) != c.same {
			t.Errorf("%q shown, %q printed: want equal %v", c.shown, c.printed, c.same)
		}
	}
}
