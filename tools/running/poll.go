package running

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

// SinceLast is the cursor of a poll for what has come since the last one.
const SinceLast = -1

// PollOptions say what a poll wants.
type PollOptions struct {
	From int64         // where an earlier poll has stopped; 0 is the beginning, SinceLast the last poll with SinceLast
	Wait time.Duration // for output or the end, where there is neither
	Max  int           // bytes; 0 is all that is kept
}

// A Poll is output, and how the command does.
type Poll struct {
	Status  Status
	Chunks  []Chunk // in the order in which they were written
	Next    int64   // From for what follows
	Dropped int64   // bytes from From to Next that were not kept
	More    bool    // there is more at Next already
}

// Text is the output of one stream, or of both for 0, as it came.
func (p Poll) Text(stream int) []byte {
	var out []byte
	for _, c := range p.Chunks {
		if stream == 0 || c.Stream == stream {
			out = append(out, c.Data...)
		}
	}
	return out
}

// maxText is how much of a command is shown to people, in bytes.
const maxText = 1000

// text is a command for people.
func text(args []string) string {
	s := strings.Join(args, " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + " …"
	}
	return s
}

// state is the status of c now. With the output's end the status is that of the
// end too, never the other way round.
func (c *command) now() Status {
	c.supervisor.mu.Lock()
	s := c.status()
	c.supervisor.mu.Unlock()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	s.Bytes, s.Lines, s.StdoutBytes, s.StderrBytes = c.out.total, c.out.lines, c.out.written[0], c.out.written[1]
	return s
}

// List tells of the commands of a session, the oldest first: those that run,
// and those that have ended and are not forgotten yet.
func (h *Supervisor) List(who config.Who) []Status {
	h.mu.Lock()
	var found []*command
	if have := h.sessions[who]; have != nil {
		for _, c := range have.commands {
			found = append(found, c)
		}
	}
	h.mu.Unlock()
	out := make([]Status, len(found))
	for i, c := range found {
		out[i] = c.now()
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Poll returns what a command has written, and how it does. When it says that
// the command is over and that there is no more, that was all. A wait that
// passes is no error; neither is ctx that ends while it waits.
func (h *Supervisor) Poll(ctx context.Context, who config.Who, id string, o PollOptions) (Poll, error) {
	c, err := h.find("poll", who, id)
	if err != nil {
		return Poll{}, err
	}
	from := o.From
	if from < 0 {
		h.mu.Lock()
		from = c.seen
		h.mu.Unlock()
	}
	c.await(ctx, from, o.Wait)
	s := c.now() // before the output, or its end might be missed
	most := o.Max
	if most <= 0 {
		most = int(2 * h.o.Keep)
	}
	c.out.mu.Lock()
	r := c.out.read(from, most)
	c.out.mu.Unlock()
	if o.From < 0 {
		h.mu.Lock()
		c.seen = max(c.seen, r.next)
		h.mu.Unlock()
	}
	return Poll{Status: s, Chunks: r.chunks, Next: r.next, Dropped: r.dropped, More: r.more}, nil
}

// await waits until there is output behind a place, or the end.
func (c *command) await(ctx context.Context, from int64, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		c.out.mu.Lock()
		there := c.out.total > from
		changed := c.out.wait()
		c.out.mu.Unlock()
		if there {
			return
		}
		select {
		case <-changed:
		case <-c.done:
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
