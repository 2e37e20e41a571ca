//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// loadProgram is the package of the program that fetches when its first
// argument is loadName, which is also its name in workspaces.
const (
	loadProgram = "github.com/bulkhead-dev/sandbox/internal/bench"
	loadName    = "load"
)

// BuildLoad builds the program that runs inside, as a static one. It needs the
// go command and to be called in this module's folder; where that is not so,
// it is [sandbox.CodeUnsupported].
func (r *rig) BuildLoad(ctx context.Context) error {
	if r.load != "" {
		return nil
	}
	path := filepath.Join(filepath.Dir(r.state.Path()), loadName)
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, loadProgram)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return sandbox.Errorf(sandbox.CodeUnsupported, "build the program inside", "%v: %s", err, bytes.TrimSpace(out))
	}
	r.load = path
	return nil
}

// PlaceLoad makes the program be in the workspace of the sandbox name.
func (r *rig) PlaceLoad(name string) error {
	err := os.Link(r.load, filepath.Join(r.workspace(name), loadName))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// A Load is the program while it runs.
type rigLoad struct {
	in   io.WriteCloser
	out  *bufio.Reader
	wait func() error
}

// StartLoad runs the program in sb, in whose workspace it is, or on the host
// where sb is nil. It ends with Close, or with ctx.
func (r *rig) StartLoad(ctx context.Context, sb sandbox.Sandbox, args ...string) (*rigLoad, error) {
	fromIt, out := io.Pipe()
	l := &rigLoad{out: bufio.NewReader(fromIt)}
	var said bytes.Buffer
	var wait func() error
	args = append([]string{loadName}, args...)
	if sb == nil {
		c := exec.CommandContext(ctx, r.load, args...)
		c.Stdout, c.Stderr = out, &said
		var err error
		if l.in, err = c.StdinPipe(); err != nil {
			return nil, err
		}
		if err := c.Start(); err != nil {
			return nil, err
		}
		wait = c.Wait
	} else {
		in, toIt := io.Pipe()
		l.in = toIt
		p, err := sb.Start(ctx, sandbox.Command{Args: append([]string{sandbox.WorkspaceDir + "/" + loadName}, args...), Stdin: in, Stdout: out, Stderr: &said})
		if err != nil {
			return nil, err
		}
		wait = func() error {
			exit, err := p.Wait()
			in.Close() // a write to a program that has ended fails
			if err == nil && exit.Code != 0 {
				err = fmt.Errorf("exit status %d", exit.Code)
			}
			return err
		}
	}
	ended := make(chan error, 1)
	go func() {
		err := wait()
		if err != nil {
			err = fmt.Errorf("the program that fetches: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		out.CloseWithError(errors.Join(io.ErrUnexpectedEOF, err))
		ended <- err
	}()
	l.wait = func() error { return <-ended }
	return l, nil
}

// Once has the program do its work once and returns the times it took.
func (l *rigLoad) Once() ([]time.Duration, error) {
	if _, err := io.WriteString(l.in, "\n"); err != nil {
		_, why := l.out.ReadByte()
		return nil, errors.Join(err, why)
	}
	line, err := l.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for _, word := range strings.Fields(line) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n <= 0 {
			return nil, sandbox.Errorf(sandbox.CodeExecution, "measure", "the program that fetches says %q", line)
		}
		times = append(times, time.Duration(n))
	}
	return times, nil
}

// Close ends the program.
func (l *rigLoad) Close() error {
	l.in.Close()
	return l.wait()
}
