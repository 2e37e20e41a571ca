package client

import (
	"context"
	"io"
	"maps"
	"reflect"
	"sort"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Start runs cmd in the sandbox, as the contract of sandbox.Sandbox says. It
// returns when the program runs.
//
// When the program could not be started the error is a *sandbox.Error:
//
//   - CodeExecution, Field "args", errors.Is fs.ErrNotExist: there is no
//     such program (a shell's status 127);
//   - CodeExecution, Field "args", any other cause: the program is there and
//     cannot be executed (126); fs.ErrPermission when it lacks permission,
//     syscall.E2BIG when arguments and environment are too large;
//   - CodeExecution, Field "dir": the working directory cannot be entered;
//   - CodeExecution, Field "limits": a limit could not be set;
//   - CodeExecution, Retryable: no process or memory to be had;
//   - CodeValidation: cmd makes no sense (Field says where);
//   - CodeUnsupported: this sandbox has no terminals, or (Field "limits")
//     a guest that cannot hold limits of a whole command;
//   - CodeUnavailable, CodeTimeout: the guest was lost, or ctx ended first.
//
// The program reads /dev/null when cmd.Stdin is nil, and writes there when
// Stdout or Stderr is nil. When both are one writer, both streams go there
// in the order in which they were written. A terminal gets its end-of-file
// character at the end of Stdin. Stdin is read ahead; a Read that waits
// when the program ends is not interrupted, and Wait does not wait for it.
//
// When ctx ends the process tree is killed, after cmd.Grace where that is
// set and the program runs already, and output that is not taken within two
// seconds is dropped. Nothing but the output is delivered late: ctx is not
// needed after Wait returned. Grace is cut at an hour. A detached command is
// killed by the end of ctx like any other; what ends it not is the end of the
// Client. A Start that has not returned by then does so when nothing is left
// of the tree.
//
// No guest is waited for without bound once ctx has ended: one that gives
// no sign of life for five seconds after Grace, or does not end the command
// within half a minute more, loses its connection, and Wait returns an
// error of CodeUnavailable.
func (c *Client) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	p, err := c.start(ctx, cmd)
	if err != nil {
		return nil, c.named(err)
	}
	return p, nil
}

func (c *Client) start(ctx context.Context, cmd sandbox.Command) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, contextError(ctx, "start")
	}
	m, err := c.request(cmd)
	if err != nil {
		return nil, err
	}
	payload := m.Encode()
	if len(payload) > wire.MaxRequest {
		return nil, startError(wire.Failed{Kind: wire.KindTooBig}, "", "")
	}
	p := newProcess(ctx, c, cmd, m.Flags)
	p.asked = m.Limits
	return p, p.begin(ctx, wire.TypeStart, payload)
}

// begin sends the request and waits until the program runs.
func (p *process) begin(ctx context.Context, t wire.Type, payload []byte) error {
	c := p.c
	silent := time.AfterFunc(startWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	id, err := c.open(ctx, t, payload, p)
	if err != nil {
		return err
	}
	p.id = id
	select {
	case <-p.started:
	case <-ctx.Done():
		// The answer is on its way. Killing needs no answer: the guest kills
		// what it is about to start. Its output is dropped, and the end is that
		// of the whole tree.
		go p.insist(0)
		p.kill(0)
		p.abandon()
		<-p.ended
		return contextError(ctx, "start")
	}
	if p.failure != nil {
		return p.failure
	}
	p.carry(ctx)
	return nil
}

// request translates cmd.
func (c *Client) request(cmd sandbox.Command) (wire.Start, error) {
	m := wire.Start{Args: cmd.Args, Dir: cmd.Dir, Flags: flags(cmd)}
	if m.Dir == "" {
		m.Dir = c.o.Dir
	}
	if cmd.TTY != nil {
		m.Rows, m.Cols = cmd.TTY.Rows, cmd.TTY.Cols
	}
	if len(m.Args) == 0 || m.Args[0] == "" {
		return m, invalid("args", "there is no program")
	}
	for _, a := range m.Args {
		if strings.ContainsRune(a, 0) {
			return m, invalid("args", "an argument holds a NUL byte")
		}
	}
	if strings.ContainsRune(m.Dir, 0) {
		return m, invalid("dir", "the path holds a NUL byte")
	}
	var err error
	if m.Limits, err = c.limits(cmd.Limits); err != nil {
		return m, err
	}
	if !cmd.Bare {
		m.Env, err = environment(c.o.Env, cmd.Env)
		return m, err
	}
	if !c.hello.Has(wire.FeatureBare) {
		return m, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "start", Field: "bare",
			Message: "the guest of the sandbox is older than commands without the sandbox's environment",
			Hint:    "recreate the sandbox to get the current guest",
		}
	}
	m.Env, err = environment(cmd.Env)
	return m, err
}

func flags(cmd sandbox.Command) uint32 {
	var f uint32
	if cmd.Detach {
		f |= wire.FlagDetach
	}
	if cmd.Bare {
		f |= wire.FlagBare
	}
	if cmd.TTY != nil {
		return f | wire.FlagTTY
	}
	if cmd.Stdin == nil {
		f |= wire.FlagNoStdin
	}
	if cmd.Stdout == nil {
		f |= wire.FlagNoStdout
	}
	switch {
	case cmd.Stderr == nil:
		f |= wire.FlagNoStderr
	case same(cmd.Stdout, cmd.Stderr):
		f |= wire.FlagMergeErr
	}
	return f
}

// same reports whether two writers are one.
func same(a, b io.Writer) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// environment merges the layers, the last one wins, into sorted entries.
func environment(layers ...map[string]string) ([]string, error) {
	merged := map[string]string{}
	for _, l := range layers {
		if err := sandbox.CheckEnv(l); err != nil {
			return nil, err
		}
		maps.Copy(merged, l)
	}
	list := make([]string, 0, len(merged))
	for k, v := range merged {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return list, nil
}
