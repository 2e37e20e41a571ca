package client

import (
	"context"
	"errors"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// exchangeWithin bounds an exchange of file systems. The guest stays quiet for
// longer.
const exchangeWithin = wire.MaxQuiet / 2

// Remount has the guest begin no file operation below the mount root, and no line
// of a shell, while exchange puts another file system there, and makes it use that
// one. It waits for file operations that are under way, for at most some seconds
// or until ctx ends. An exchange that fails has to leave things as they were; its
// error is returned as it is. When the guest does not take up what was exchanged,
// the error says so and has [sandbox.CodeUnavailable].
//
// Operations that do not end in time are [sandbox.CodeBusy], and a guest from
// before this is [sandbox.CodeUnsupported]; nothing is exchanged then.
func (c *Client) Remount(ctx context.Context, root string, exchange func(context.Context) error) error {
	if !c.hello.Has(wire.FeatureRemount) {
		return c.named(&sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "remount", Message: "the guest of the sandbox cannot take up another file system",
			Hint: "recreate the sandbox to get the current guest",
		})
	}
	exchanged := false
	err := c.remount(ctx, root, func(ctx context.Context) error {
		err := exchange(ctx)
		exchanged = err == nil
		return err
	})
	if err == nil || !exchanged {
		return err
	}
	// The guest may have given up before the exchange, and has to look again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	if again := c.remount(ctx, root, func(context.Context) error { return nil }); again != nil {
		return c.named(&sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "remount", Resource: root, Message: "another file system was put at the mount, and the guest does not take it up",
			Err: errors.Join(err, again), Hint: "start afresh with: sandbox recreate",
		})
	}
	return nil
}

func (c *Client) remount(ctx context.Context, root string, exchange func(context.Context) error) error {
	silent := time.AfterFunc(answerWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	within := wire.MaxQuietAfter
	if end, ok := ctx.Deadline(); ok {
		within = min(within, max(0, time.Until(end)))
	}
	r := remounting{answer: answer{result: make(chan error, 1)}, quiet: make(chan struct{})}
	id, err := c.open(ctx, wire.TypeRemount, wire.Remount{Root: root, Within: uint32(within.Milliseconds())}.Encode(), r)
	if err != nil {
		return c.named(err)
	}
	select {
	case <-r.quiet:
	case err := <-r.result:
		return c.named(err)
	case <-ctx.Done():
		// The guest answers at once; its answer is of no matter.
		_ = c.sendUnless(c.done, wire.Frame{Type: wire.TypeKill, Stream: id, Payload: wire.Kill{}.Encode()})
		return c.named(contextError(ctx, "remount"))
	}
	work, cancel := context.WithTimeout(ctx, exchangeWithin)
	failed := exchange(work)
	cancel()
	end := wire.Frame{Type: wire.TypeRemounted, Stream: id, Payload: wire.Remounted{Exchanged: failed == nil}.Encode()}
	if err = c.sendUnless(c.done, end); err == nil {
		err = <-r.result // within the time of silent
	}
	if failed != nil {
		return failed
	}
	return c.named(err)
}

// A remounting is the stream of a Remount.
type remounting struct {
	answer
	quiet chan struct{} // closed when the guest is quiet
}

func (r remounting) frame(f wire.Frame) (bool, error) {
	quiet := false
	select {
	case <-r.quiet:
		quiet = true
	default:
	}
	switch {
	case f.Type == wire.TypeQuiet && !quiet:
		close(r.quiet)
		return false, nil
	case f.Type == wire.TypeQuiet, f.Type == wire.TypeDone && !quiet:
		return false, wire.Violation("unexpected answer")
	}
	if f.Type == wire.TypeFailed {
		m, err := wire.DecodeFailed(f.Payload)
		if err == nil && m.Kind == wire.KindBusy {
			r.result <- &sandbox.Error{Code: sandbox.CodeBusy, Op: "remount", Message: "the guest is not quiet: " + wire.Quote(m.Text), Retryable: true}
			return true, nil
		}
	}
	return r.answer.frame(f)
}
