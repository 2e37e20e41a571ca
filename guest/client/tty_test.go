package client_test

import (
	"context"
	"io"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

func TestTTY(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{Env: map[string]string{"TERM": "dumb"}})
	ctx := context.Background()

	t.Run("size and end of input", func(t *testing.T) {
		cmd := sh("stty size; tty -s && echo terminal; cat; echo ended")
		cmd.TTY = &sandbox.TTY{Rows: 33, Cols: 101}
		got := run(t, c, cmd)
		if got.stdout != "33 101\r\nterminal\r\nended\r\n" || got.stderr != "" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("unfinished line", func(t *testing.T) {
		cmd := sh("stty -echo; echo ready; cat")
		cmd.TTY, cmd.Stdin = &sandbox.TTY{Rows: 1, Cols: 80}, strings.NewReader("no newline")
		if got := run(t, c, cmd); !strings.HasSuffix(got.stdout, "no newline") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("resize", func(t *testing.T) {
		in, keys := io.Pipe()
		defer keys.Close()
		cmd := sandbox.Command{
			Args: []string{"bash", "-c", "trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.01; done"},
			TTY:  &sandbox.TTY{Rows: 10, Cols: 20}, Stdin: in,
		}
		p, out := start(t, ctx, c, cmd)
		must(t, p.Resize(ctx, sandbox.TTY{Rows: 40, Cols: 120}))
		exit, err := p.Wait()
		must(t, err)
		if exit.Code != 5 || !strings.Contains(out.String(), "40 120") {
			t.Errorf("exit %+v, output %q", exit, out)
		}
	})
	t.Run("interrupt key and job control", func(t *testing.T) {
		in, keys := io.Pipe()
		out := newLineWriter("got 130")
		p, err := c.Start(ctx, sandbox.Command{
			Args: []string{"bash", "--norc", "-i"}, TTY: &sandbox.TTY{Rows: 24, Cols: 80}, Stdin: in, Stdout: out,
		})
		must(t, err)
		ready := newLineWriter("")
		_ = ready
		_, err = io.WriteString(keys, "sleep 1000\n")
		must(t, err)
		eventually(t, 10e9, "sleep runs", func() bool {
			return strings.Contains(strings.Join(g.inside(), ","), "sleep 1000")
		})
		_, err = io.WriteString(keys, "\x03")
		must(t, err)
		_, err = io.WriteString(keys, "echo got $?\n")
		must(t, err)
		out.wait(t)
		_, err = io.WriteString(keys, "sleep 1000 & jobs; kill %1; exit 9\n")
		must(t, err)
		exit, err := p.Wait()
		must(t, err)
		if exit.Code != 9 || !strings.Contains(out.String(), "Running") {
			t.Errorf("exit %+v, output %q", exit, out)
		}
	})
	t.Run("resize without terminal", func(t *testing.T) {
		p, err := c.Start(ctx, sh("exit"))
		must(t, err)
		codeIs(t, p.Resize(ctx, sandbox.TTY{}), sandbox.CodeUnsupported)
		_, err = p.Wait()
		must(t, err)
	})
	g.empty(0)
}
