package local

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// prove compares what the kernel says is mounted in the instance with the plan.
// Nothing but the guest has run in it yet.
func (w *instance) prove() error {
	host, err := hostscan.MountTable()
	if err != nil {
		return err
	}
	inside, err := w.watch.Text()
	if err != nil {
		return err
	}
	w.cover.built = inside
	mask, err := w.site.p.maskFile()
	if err != nil {
		return err
	}
	return plan.SelfCheck(w.plan, mask, host, inside)
}

// check asks the guest, which has tried the instance from inside as a command of
// a user would, what does not hold: each deny must, and each folder that is to
// be writable must be. An error tells what did not hold, and the plan.
func (w *instance) check(ctx context.Context, c *client.Client) error {
	if len(w.plan.Probes) == 0 {
		return nil
	}
	misses, err := c.Proof(ctx, len(w.plan.Probes))
	switch {
	case err != nil && c.Err() != nil:
		return w.Explain(ctx, err)
	case err != nil:
		return w.unproven(nil, fmt.Errorf("try the sandbox: %w", err))
	}
	if misses = w.held(misses); len(misses) > 0 {
		return w.unproven(misses, nil)
	}
	return nil
}

// held leaves out the misses that are no fault of the instance: what settings and
// grants open may be a file, in which nothing can be made, or closed to the
// user of the sandbox by its own mode. Commands see the same error as they would
// on the host.
func (w *instance) held(misses []wire.Miss) []wire.Miss {
	return slices.DeleteFunc(misses, func(m wire.Miss) bool {
		p, errno := w.plan.Probes[m.Index], syscall.Errno(m.Errno)
		opened := !strings.HasPrefix(p.Rule, "mount: ") && p.Rule != "docker.tmpfs" && p.Rule != "/dev/shm"
		return p.Want == plan.Writable && opened && (errno == syscall.ENOTDIR || errno == syscall.EACCES)
	})
}

// checksOf are the probes of a plan as the guest takes them, in order.
func checksOf(probes []plan.Probe) []wire.Check {
	wants := map[plan.Want]wire.Want{
		plan.Unreadable: wire.Unreadable, plan.Unwritable: wire.Unwritable, plan.Writable: wire.Writable, plan.Pinned: wire.Pinned,
	}
	checks := make([]wire.Check, len(probes))
	for i, p := range probes {
		checks[i] = wire.Check{Path: p.Path, Want: wants[p.Want]} // an unknown want is refused inside
	}
	return checks
}

// shownMisses bounds how many failed probes an error tells of.
const shownMisses = 8

// unproven says that the instance is not what its plan says.
func (w *instance) unproven(misses []wire.Miss, cause error) error {
	var what []string
	for i, m := range misses {
		if i == shownMisses {
			what = append(what, fmt.Sprintf("and %d more", len(misses)-i))
			break
		}
		p := w.plan.Probes[m.Index]
		text := fmt.Sprintf("%s is not %s (%s)", strconv.Quote(p.Path), p.Want, p.Rule)
		if m.Errno != 0 {
			text += ": " + syscall.Errno(m.Errno).Error()
		}
		what = append(what, text)
	}
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "check the sandbox", Resource: w.site.def.Name, Err: cause,
		Message: "the sandbox does not hold what its rules say, so nothing runs in it",
		Hint:    "see what was planned with: sandbox explain",
	}
	if len(what) > 0 {
		e.Message += ": " + strings.Join(what, "; ")
	}
	e.Message += "\nthe plan:\n" + printed(w.plan)
	return e
}

// printed is a plan for people.
func printed(p plan.Plan) string {
	var b strings.Builder
	for _, op := range p.Ops {
		fmt.Fprintf(&b, "  %s %s", op.Kind, strconv.Quote(op.Target))
		if op.Source != "" {
			fmt.Fprintf(&b, " from %s", strconv.Quote(op.Source))
		}
		if op.Rule != "" {
			fmt.Fprintf(&b, " (%s)", op.Rule)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
