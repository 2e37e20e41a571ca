//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"bytes"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A screen is what a program has written to its terminal.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// watched reads what comes from a terminal until its program has ended.
func watched(terminal io.Reader) *screen {
	shown := &screen{}
	go func() { _, _ = io.Copy(shown, terminal) }() // the error is the end of the program
	return shown
}

// TestCodeOnTerminal types at sandbox code: variables stay, cells of several lines end
// with an empty one, code that fails ends nothing, and pictures are files.
func TestCodeOnTerminal(t *testing.T) {
	testenv.Require(t, "code")
	s := newSite(t)
	pictures := t.TempDir()
	cmd := s.command("code", "--image", "sandbox-code:bookworm-slim", "--pictures", pictures)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	shown := watched(terminal)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows\n%s", shown)
		}
	})
	prompts := 0
	prompt := func() {
		t.Helper()
		prompts++
		testenv.Until(t, "the next prompt", func() bool { return strings.Count(shown.String(), ">>> ") >= prompts })
	}
	seen := 0
	typed := func(cell, want string) {
		t.Helper()
		if _, err := terminal.WriteString(cell); err != nil {
			t.Fatal(err)
		}
		prompt()
		all := shown.String()
		if got := all[seen:]; !strings.Contains(got, want) {
			t.Errorf("%q shows\n%s\nand not\n%s", cell, got, want)
		}
		seen = len(all)
	}
	prompt()
	typed("x = 20\n", "")
	typed("x + 22\n", "\n42\n")
	typed("for i in range(2):\n    print('n', i)\n\n", "n 0\nn 1\n")
	typed("1 / 0\n", "ZeroDivisionError: division by zero")
	typed("'\\x1b[2Jno'\n", `'\x1b[2Jno'`)
	typed("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()\n", "picture: "+filepath.Join(pictures, "picture-1.png")+"\n")
	typed("plt.plot([1]); plt.show(); x\n", "picture: "+filepath.Join(pictures, "picture-2.png")+"\n20\n")
	if strings.Contains(shown.String(), "\x1b[0;31m") {
		t.Error("a traceback has colours that its code could forge")
	}
	for _, name := range []string{"picture-1.png", "picture-2.png"} {
		data, err := os.ReadFile(filepath.Join(pictures, name))
		if err == nil {
			_, err = png.Decode(bytes.NewReader(data))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := terminal.Write([]byte{4}); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, shown)
	}
}

// TestCodeInterrupted holds that Ctrl-C ends the code and the command.
func TestCodeInterrupted(t *testing.T) {
	testenv.Require(t, "code")
	s := newSite(t)
	cmd := s.command("code", "--image", "sandbox-code:bookworm-slim")
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	shown := watched(terminal)
	if _, err := terminal.WriteString("print('be' + 'gun', flush=True); import time; time.sleep(600)\n"); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the start of the code", func() bool { return strings.Contains(shown.String(), "begun\n") })
	if _, err := terminal.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit status %d, %v\n%s", code, err, shown)
	}
}
