//go:build linux

package server

import (
	"io"
	"os"
	"strings"
	"testing"
)

// TestLineBecomesProgram checks that a shell whose line becomes another program
// before the whole script is written is waited for to its end, and that one
// that ends before it has read the line has not run it.
func TestLineBecomesProgram(t *testing.T) {
	t.Parallel()
	run, ask := "exec program\n", strings.Repeat("a", 4*maxPipe) // is never written to its end
	for name, tt := range map[string]struct {
		reads  int // bytes before the read end is closed
		unread bool
	}{
		"the line is read":     {len(run), false},
		"the line is not read": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write := pipeOf(t)
			control, told := pipeOf(t)
			p := &shellProc{prog: &command{gone: make(chan struct{})}, script: write, control: control, buf: make([]byte, maxPipe)}
			go func() {
				if tt.reads == 0 {
					// The pipe takes the line, and not all of what follows.
					for n := 0; n < len(run); {
						n, _ = pending(write)
					}
				}
				_, _ = io.ReadFull(read, make([]byte, tt.reads))
				read.Close()
			}()
			if err := p.say(protocolScript{Writes: []string{run, ask}, rest: len(ask)}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.lookAgain(); err != nil {
				t.Errorf("while it runs: %v", err)
			}
			told.Close()
			close(p.prog.gone)
			if _, err := p.lookAgain(); err != io.EOF {
				t.Errorf("when it has ended: %v", err)
			}
			if p.unread() != tt.unread {
				t.Errorf("the line is said to be unread: %v", !tt.unread)
			}
		})
	}
}

// pipeOf is a pipe whose ends are closed with the test.
func pipeOf(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		read.Close()
		write.Close()
	})
	return read, write
}
