package provider

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// MakeReady runs the OnStart lines of s, if there are any, unless they have been
// run since the guest started. The guest keeps the mark in its memory, so it is
// gone with a restart and cannot be forged from a file.
func MakeReady(ctx context.Context, c *client.Client, s sandbox.Spec) error {
	const tag = "ready"
	if len(s.OnStart) == 0 || c.Hello().Ready == tag {
		return nil
	}
	for i, line := range s.OnStart {
		if err := runOnStart(ctx, c, s, line); err != nil {
			return &sandbox.Error{Code: sandbox.CodeExecution, Op: "start", Field: fmt.Sprintf("docker.onStart[%d]", i), Resource: s.Name, Message: "the start command failed", Err: err, Hint: "correct the command in the settings"}
		}
	}
	return c.SetReady(ctx, tag)
}

func runOnStart(ctx context.Context, c *client.Client, s sandbox.Spec, line string) error {
	out := &lastBytes{limit: 2 << 10}
	proc, err := c.Start(ctx, sandbox.Command{
		Args: []string{"sh", "-c", line}, Env: s.Env, Dir: s.Workdir, Stdout: out, Stderr: out, Limits: s.Limits,
		// What a start command leaves running is meant to stay.
		Detach: true,
	})
	if err != nil {
		return err
	}
	exit, err := proc.Wait()
	if err != nil {
		return err
	}
	if exit.Limit != nil && exit.Code != 0 {
		return fmt.Errorf("%s; %s", exit.Limit, exit.Limit.Hint())
	}
	if exit.Code != 0 {
		return fmt.Errorf("exit status %d: %s", exit.Code, termsafe.Line(strings.TrimSpace(out.buf.String())))
	}
	return nil
}

// lastBytes is a writer that keeps the last limit bytes.
type lastBytes struct {
	limit int
	buf   bytes.Buffer
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.buf.Write(p)
	if over := l.buf.Len() - l.limit; over > 0 {
		l.buf.Next(over)
	}
	return len(p), nil
}
