package container

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/bulkhead-dev/sandbox"
)

// Exec starts argv in the container and returns its input and output as
// one stream. Closing the stream ends the program's input; the engine has
// no call that kills an exec, so argv must end by itself then. What the
// program writes to its standard error is kept, up to 4 KiB, for [Stream.Stderr].
func (e *Engine) Exec(ctx context.Context, name string, argv []string) (*Stream, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Start)
	defer done()
	r, err := e.api.ContainerExecCreate(ctx, name, container.ExecOptions{
		Cmd: argv, AttachStdin: true, AttachStdout: true, AttachStderr: true, WorkingDir: "/",
	})
	if err != nil {
		return nil, e.fail(ctx, "exec", name, err)
	}
	h, err := e.api.ContainerExecAttach(ctx, r.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, e.fail(ctx, "attach to exec", name, err)
	}
	pr, pw := io.Pipe()
	s := &Stream{in: h.Conn, out: pr, close: h.Close, stderr: &tail{limit: 4 << 10}}
	go func() {
		_, err := stdcopy.StdCopy(pw, s.stderr, h.Reader)
		if err == nil {
			err = io.EOF
		}
		pw.CloseWithError(err)
	}()
	return s, nil
}

// A Stream is the input and output of an exec.
type Stream struct {
	in     io.Writer
	out    *io.PipeReader
	close  func()
	stderr *tail
	once   sync.Once
}

// Read reads the program's standard output.
func (s *Stream) Read(p []byte) (int, error) { return s.out.Read(p) }

// Write writes to the program's standard input.
func (s *Stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// Close ends both directions. It may be called many times.
func (s *Stream) Close() error {
	s.once.Do(func() {
		s.close()
		s.out.Close()
	})
	return nil
}

// Stderr returns the last bytes of the program's standard error so far.
func (s *Stream) Stderr() string { return s.stderr.String() }

// tail is a writer that keeps the last limit bytes.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - t.limit; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

var _ io.ReadWriteCloser = (*Stream)(nil)

// Usage returns the current resource usage of the container.
func (e *Engine) Usage(ctx context.Context, name string) (sandbox.Usage, error) {
	if e.ungrouped { // Podman says then what the whole machine uses
		return sandbox.Usage{}, noGroups("read statistics", name)
	}
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	r, err := e.api.ContainerStatsOneShot(ctx, name)
	if err != nil {
		return sandbox.Usage{}, e.fail(ctx, "read statistics", name, err)
	}
	defer r.Body.Close()
	u, err := decodeUsage(r.Body)
	if err != nil {
		return sandbox.Usage{}, e.fail(ctx, "read statistics", name, err)
	}
	return u, nil
}

// A Process is one of a container.
type Process struct {
	PID, Parent int
	Args        []string
}

// Processes returns the processes of the container, as the engine's host numbers
// them. What stands in their command lines is split at spaces.
func (e *Engine) Processes(ctx context.Context, name string) ([]Process, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	top, err := e.api.ContainerTop(ctx, name, []string{"-eo", "pid,ppid,args"})
	if err != nil {
		return nil, e.fail(ctx, "list processes", name, err)
	}
	out := make([]Process, 0, len(top.Processes))
	for _, p := range top.Processes {
		if len(p) != 3 {
			continue
		}
		pid, errPID := strconv.Atoi(p[0])
		parent, errParent := strconv.Atoi(p[1])
		if errPID == nil && errParent == nil {
			out = append(out, Process{PID: pid, Parent: parent, Args: strings.Fields(p[2])})
		}
	}
	return out, nil
}
