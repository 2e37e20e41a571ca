//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestTopRestoresTheTerminal holds that a fault of the view, in a request or in a
// key, leaves the terminal as it was.
func TestTopRestoresTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, where := range []string{"request", "key"} {
		host, caller := openPTY(t)
		before := mode(t, caller)
		screen := make(chan string, 1)
		drawn := make(chan struct{})
		go func() {
			var all strings.Builder
			buf := make([]byte, 4096)
			for once := true; ; {
				n, err := host.Read(buf)
				all.Write(buf[:n])
				if once && strings.Contains(all.String(), "running") {
					once = false
					close(drawn)
				}
				if err != nil || strings.HasSuffix(all.String(), "the end") {
					screen <- all.String()
					return
				}
			}
		}()
		f := &faultyTop{topFake: &topFake{rows: thousand()[:1]}, drawn: drawn}
		v := topView()
		v.In, v.Out = caller, caller
		if where == "key" {
			v.Words.Violation = nil
			go func() {
				<-drawn
				io.WriteString(host, "\x1b[200~x\x1b[201~q") // a paste does nothing here
			}()
			f.fault = false
		} else {
			f.fault = true
		}
		err := RunTop(context.Background(), f, v)
		if code := sandbox.CodeOf(err); f.fault && code != sandbox.CodeInternal || !f.fault && err != nil {
			t.Errorf("%s: %v", where, err)
		}
		io.WriteString(caller, "the end")
		all := <-screen
		if mode(t, caller) != before {
			t.Errorf("%s: the terminal's mode is another one", where)
		}
		if strings.LastIndex(all, "\x1b[?1049l") < strings.LastIndex(all, "\x1b[?1049h") || strings.LastIndex(all, "\x1b[?25h") < strings.LastIndex(all, "\x1b[?25l") {
			t.Errorf("%s: it leaves %q", where, all)
		}
	}
}

// A faultyTop panics when a sandbox is measured.
type faultyTop struct {
	*topFake
	fault bool
	drawn chan struct{}
}

func (f *faultyTop) Measure(ctx context.Context, row manager.Row) manager.Stat {
	if f.fault {
		<-f.drawn
		panic("test")
	}
	return f.topFake.Measure(ctx, row)
}
