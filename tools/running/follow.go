package running

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// FromNow has [Supervisor.Follow] begin with what is written from now on.
const FromNow = -1

// maxPiece is the most bytes of one [Piece].
const maxPiece = 32 << 10

// A Piece is a part of what a command has written.
type Piece struct {
	Stream  int // Stdout or Stderr; on a terminal always Stdout. 0 where there is no Data
	Data    []byte
	Next    int64 // the place behind it, from which Follow goes on
	Dropped int64 // bytes before it that are not kept any more
	Again   bool  // the command began anew, with a permission: what came before is void
}

// Follow calls fn with what the command has written from a place on, as far as
// it is kept, and then with what it writes, in the order of writing. The place 0
// is the beginning, [FromNow] the end; a place that the output has not reached
// is [sandbox.CodeValidation]. Any number of clients may follow one command.
//
// It returns when the command has ended and fn has received everything, with how
// it ended; an end that is not known is Status.Err and no error. When ctx ends
// it returns the cause, and the error of fn when that fails. The command runs on
// in both cases.
//
// While fn is slower than the command, the command waits, but at most ten
// seconds: then fn misses output, and the next piece says how much.
func (h *Supervisor) Follow(ctx context.Context, who config.Who, ref string, from int64, fn func(Piece) error) (Status, error) {
	c, err := h.find("attach", who, ref)
	if err != nil {
		return Status{}, err
	}
	o, me := c.out, &reader{next: from}
	o.mu.Lock()
	switch {
	case from == FromNow:
		me.next = o.total
	case from < 0 || from > o.total:
		total := o.total
		o.mu.Unlock()
		return Status{}, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "attach", Field: "from", Resource: c.id,
			Message: "the command has not written as much: " + strconv.FormatInt(from, 10) + " is no place from 0 to " + strconv.FormatInt(total, 10),
			Hint:    "begin at 0, or where an earlier reading has ended",
		}
	}
	told := int64(0) // the place of the last beginning that fn knows of
	if me.next > o.void {
		told = o.void
	}
	o.attached[me] = true
	o.mu.Unlock()
	h.attend(c, 1)
	defer func() {
		h.attend(c, -1)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.attached, me)
		o.tell()
	}()
	for {
		o.mu.Lock()
		again := o.void > told
		if again { // what is void is passed over
			told = o.void
			me.next = max(me.next, o.void)
		}
		at := me.next
		r := o.read(at, maxPiece)
		over, changed := o.over, o.wait()
		o.mu.Unlock()
		if again {
			if err := fn(Piece{Next: at, Again: true}); err != nil {
				return Status{}, err
			}
		}
		for i, chunk := range r.chunks {
			p := Piece{Stream: chunk.Stream, Data: chunk.Data, Next: chunk.next}
			if i == 0 {
				p.Dropped = r.dropped
			}
			if err := fn(p); err != nil {
				return Status{}, err
			}
		}
		if len(r.chunks) == 0 && r.dropped > 0 {
			if err := fn(Piece{Next: r.next, Dropped: r.dropped}); err != nil {
				return Status{}, err
			}
		}
		if r.next > at {
			o.mu.Lock()
			me.next = r.next
			o.tell()
			o.mu.Unlock()
		}
		switch {
		case ctx.Err() != nil:
			return Status{}, context.Cause(ctx)
		case len(r.chunks) > 0 || r.more:
			continue
		case over:
			<-c.done
			return c.now(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Status{}, context.Cause(ctx)
		}
	}
}

// Attach copies to w what is kept of the output, and what comes, as Follow does,
// until the command has ended, ctx ends or w fails. Output that was lost while
// w was slow is an error.
func (h *Supervisor) Attach(ctx context.Context, who config.Who, ref string, w io.Writer) error {
	first := true
	_, err := h.Follow(ctx, who, ref, 0, func(p Piece) error {
		if p.Dropped > 0 && !first {
			return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "attach", Resource: ref, Message: "the output was not read as fast as it came, and part of it is lost"}
		}
		first = false
		_, err := w.Write(p.Data)
		return err
	})
	return err
}

// A watch counts the clients that follow a command. It is guarded by Supervisor.mu.
type watch struct {
	within    time.Duration // how long there may be none; 0 is any time
	following int
	timer     *time.Timer // runs while there is none
}

// begin lets the time begin in which a client has to come.
func (w *watch) begin(c *command) {
	if w.within <= 0 || w.following > 0 || w.timer != nil || c.over() || c.gone {
		return
	}
	w.timer = time.AfterFunc(w.within, func() { c.unattended() })
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// attend counts n clients more that follow c.
func (h *Supervisor) attend(c *command, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.watch.following += n
	c.watch.stop()
	c.watch.begin(c)
}

// unattended ends c because no client has followed it, unless one does now.
func (c *command) unattended() {
	h := c.supervisor
	h.mu.Lock()
	stop := c.watch.following == 0 && c.watch.timer != nil && !c.over()
	h.mu.Unlock()
	if stop {
		c.stop(errUnattended)
	}
}
