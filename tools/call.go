package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// A call is one call of a tool.
type call struct {
	*Kit
	tool     string
	progress func(Progress) // not nil
}

// Call carries a call out. An error, always a *[sandbox.Error], means that
// nothing was done or that it is not known what was; a command that failed is
// an Answer. The end of ctx ends what the call has started and waits for,
// commands with all their processes. progress may be nil; it is called by other
// goroutines while the call lasts, and must not block: the command waits for it.
func (k *Kit) Call(ctx context.Context, name string, input json.RawMessage, progress func(Progress)) (Answer, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	c := &call{Kit: k, tool: name, progress: progress}
	usable, err := k.usable()
	if err == nil {
		err = k.listed(usable, name)
	}
	if err != nil {
		return Answer{}, c.coded(ctx, err)
	}
	a, err := c.dispatch(ctx, input)
	if err != nil {
		return Answer{}, c.coded(ctx, err)
	}
	return a, nil
}

// dispatch reads the input and hands it to what carries it out.
func (c *call) dispatch(ctx context.Context, input []byte) (Answer, error) {
	if c.tools.o.Running != nil {
		switch c.tool {
		case "exec":
			return with(ctx, c, input, c.exec)
		case "process":
			return with(ctx, c, input, c.process)
		case "run_code":
			return with(ctx, c, input, c.runCode)
		}
	}
	switch c.tool {
	case "read":
		return with(ctx, c, input, c.read)
	case "image":
		return with(ctx, c, input, c.image)
	case "write":
		return with(ctx, c, input, c.write)
	case "edit":
		return with(ctx, c, input, c.edit)
	case "apply_patch":
		return with(ctx, c, input, c.patch)
	case "ls":
		return with(ctx, c, input, c.ls)
	case "glob":
		return with(ctx, c, input, c.glob)
	case "grep":
		return with(ctx, c, input, c.grep)
	case "checkpoint":
		return with(ctx, c, input, c.checkpoint)
	case "browser":
		return with(ctx, c, input, c.browse)
	}
	return Answer{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: c.tool, Message: "the tool " + shown(c.tool) + " cannot be carried out here"}
}

// with decodes the input of a tool for fn.
func with[T any](ctx context.Context, c *call, input []byte, fn func(context.Context, T) (Answer, error)) (Answer, error) {
	in, err := schema.Decode[T](c.tool, input)
	if err != nil {
		return Answer{}, err
	}
	return fn(ctx, in)
}

// request returns the call as a request to the manager.
func (c *call) request() manager.Request {
	s := c.session
	return manager.Request{Who: s.Who, Flags: s.Flags, Subagent: s.Subagent, Ask: s.Ask, Tool: c.tool}
}

// files lends the files of the sandbox to fn.
func (c *call) files(ctx context.Context, fn func(*fsbridge.Bridge) error) error {
	return c.tools.o.Manager.Files(ctx, c.request(), func(s manager.Share) error { return fn(s.Bridge) })
}

// looking is files for what looks through folders, in its turn.
func (c *call) looking(ctx context.Context, fn func(*fsbridge.Bridge) error) error {
	return c.inTurn(ctx, &c.tools.looks, fn)
}

// changing is files for what changes some, in its turn.
func (c *call) changing(ctx context.Context, fn func(*fsbridge.Bridge) error) error {
	return c.inTurn(ctx, &c.tools.turns, fn)
}

func (c *call) inTurn(ctx context.Context, of *keylock.Turns, fn func(*fsbridge.Bridge) error) error {
	return c.tools.o.Manager.Files(ctx, c.request(), func(s manager.Share) error {
		give, err := of.Enter(ctx, s.Name)
		if err != nil {
			return err
		}
		defer give()
		return fn(s.Bridge)
	})
}

// coded gives every error a code: an error without one is a failure of the
// tool, except for the end of the caller's time, which has its own code.
func (c *call) coded(ctx context.Context, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) && e.Code != sandbox.CodeInternal {
		return e
	}
	if ctx.Err() == nil {
		c.tools.o.Log.WithError(err).WithField("tool", c.tool).Warn("a tool failed with an error that has no code")
	}
	e = &sandbox.Error{Code: sandbox.CodeExecution, Op: c.tool, Message: "the tool failed", Err: err}
	var p *fs.PathError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message, e.Retryable = sandbox.CodeTimeout, "the call took longer than it may", true
	case ctx.Err() != nil, errors.Is(err, context.Canceled):
		e.Message = "the call was ended because the caller gave up"
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = sandbox.CodeNotFound, "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = sandbox.CodeCapabilityBlocked, "the file may not be used so"
	case errors.As(err, &p):
		e.Message = "the file cannot be used"
	}
	return e
}

// shown is a text of the caller's as messages have it.
func shown(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return `"` + termsafe.Line(s) + `"`
}

// lines joins the parts of an answer that are not empty, one below the other.
func lines(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if p == "" {
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(p)
	}
	return b.String()
}

// remarks are what is said about an answer, apart from what is in it. Each is
// one line whatever names from inside it has, so that none looks like another.
func remarks(texts ...string) string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, "["+termsafe.Line(t)+"]")
		}
	}
	return strings.Join(out, "\n")
}

// valid is text of a command or file as answers have it.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }

// counted is a number of bytes in words.
func counted(n int64) string { return strconv.FormatInt(n, 10) + " bytes" }
