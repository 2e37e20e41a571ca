//go:build !sandbox_front && !sandbox_engine

// The files top_*.go are the live view of sandboxes on a terminal. Only the
// program that has everything in it links them: the libraries for terminals would
// make each command start later.
//
// All that comes from sandboxes (names, command lines, hosts, output) is in the
// hands of the code inside. It goes through package termsafe before it is laid
// out, so that nothing of it moves the cursor or colours anything.
//
// What is asked of a daemon or an engine is bounded: one list per interval, the
// figures of the rows that are on the screen, and the records of the sandbox
// whose details are shown. No two requests of one kind are under way at once,
// and none keeps the view from answering a key.

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bulkhead-dev/sandbox"
)

// Bounds of what is asked.
const (
	topAtOnce      = 8                // sandboxes that are measured at the same time
	topSampled     = 8                // rows off the screen that are measured per interval where rows are sorted by a figure
	topQueryWithin = 20 * time.Second // of one request
	topDoWithin    = 5 * time.Minute  // of what a key has done to a sandbox: an image may have to be made
	topRecordsMost = 100              // of one kind that the details show
	topRest        = 4                // a list that took d is asked for again after this many d at the earliest
)

// Run shows the view on the terminal v.In and v.Out until it is left or ctx ends.
// The terminal is as before when it returns.
func RunTop(ctx context.Context, s TopSource, v TopView) error {
	if v.Once || v.JSON {
		return topSnapshot(ctx, s, v)
	}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "top", Field: "TERM", Message: fmt.Sprintf("a terminal of the kind %q cannot be drawn on", term),
			Hint: "set TERM, or write one picture with: sandbox top --once",
		}
	}
	m := newTopModel(ctx, s, v)
	defer m.close()
	p := tea.NewProgram(m, tea.WithInput(v.In), tea.WithOutput(v.Out), tea.WithoutSignalHandler(), tea.WithFPS(30))
	m.send = p.Send
	defer context.AfterFunc(ctx, p.Quit)() // which, unlike the end of its context, lets the reader of keys end
	forget := v.AtExit(func() { _ = p.ReleaseTerminal() })
	defer forget()
	_, err := p.Run()
	switch {
	case ctx.Err() != nil:
		return WatchEnd(ctx)
	case m.fault != nil:
		fmt.Fprintf(v.Out, "%s\n", m.fault.stack)
		return &sandbox.Error{Code: sandbox.CodeInternal, Op: "top", Message: fmt.Sprintf("the view has failed: %v", m.fault.value)}
	case errors.Is(err, tea.ErrProgramPanic):
		return &sandbox.Error{Code: sandbox.CodeInternal, Op: "top", Message: "the view has failed", Err: err}
	case err != nil:
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "top", Message: "the terminal cannot be drawn on", Hint: "write one picture with: sandbox top --once", Err: err}
	}
	return nil
}
