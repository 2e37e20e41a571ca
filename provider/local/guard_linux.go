package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// guardAfter is how long an instance stands before it has a guard. What is over by
// then has not paid for one; what is not has stood unguarded no longer than this,
// since a guard looks at once when it comes.
const guardAfter = 50 * time.Millisecond

// A guarding is the guard of an instance, which ends the instance when one of its mounts
// is no more where it was built: whatever runs on in it would find open what
// was closed when it was started.
type guarding struct {
	mu    sync.Mutex
	soon  *time.Timer
	guard *hostscan.Guard
	over  bool
}

// A spoiling is why a guard has ended its instance.
type spoiling struct {
	why  string
	busy bool // something ran
}

// guardSoon has the instance be guarded if it lasts.
func (w *instance) guardSoon() {
	g := &w.guarding
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.soon = time.AfterFunc(guardAfter, w.guardNow)
	}
}

func (w *instance) guardNow() {
	g := &w.guarding
	g.mu.Lock()
	var err error
	if !g.over {
		g.guard, err = w.watch.Guard(w.cover.ways, w.guarded)
	}
	g.mu.Unlock()
	ended := errors.Is(err, os.ErrProcessDone) // the instance's first process, and with it all others
	if err != nil && !ended && !w.fallen() {
		w.site.p.o.Warn(w.site.def.Name, "what runs already may not be stopped when a closed file is replaced on the host, only what is started afterwards is behind a new sandbox: "+err.Error())
	}
}

// unguard ends the guard. It may be called again.
func (w *instance) unguard() {
	g := &w.guarding
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.soon != nil {
		g.soon.Stop()
	}
	if g.guard != nil {
		g.guard.Close()
	}
}

// guarded ends the instance, and with it all that runs there, unless its mounts are
// where they were built. It reports whether it has.
func (w *instance) guarded() (enough bool) {
	lost, err := w.lost()
	lost = slices.DeleteFunc(lost, w.public)
	var why string
	switch {
	case errors.Is(err, os.ErrClosed):
		return true // it is being ended
	case err != nil:
		why = "what it closes cannot be seen any more: " + err.Error()
	case len(lost) == 0:
		return false
	default:
		why = fmt.Sprintf("%s was replaced, renamed or removed on the host; it is closed inside and would have been open from then on", w.named(lost))
	}
	w.spoiled.Store(&spoiling{why: why, busy: w.inUse.Load() > 0 || w.busy()})
	w.take()
	return true
}

// public reports whether what is open now that the mount at target is gone is
// a file of the system that every user may read, and that no rule closes, such
// as /etc/passwd, which many programs replace. The next command finds a new
// instance all the same.
func (w *instance) public(target string) bool {
	if !plan.ShowsOnly(w.plan, target) {
		return false
	}
	// Of what is missing it is not known what comes in its place.
	st, err := os.Lstat(w.cover.closed[target])
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o004 != 0
}

// named tells people of mounts by what they close on the host.
func (w *instance) named(lost []string) string {
	first := lost[0]
	if host := w.cover.closed[first]; host != "" {
		first = host
	}
	text := strconv.Quote(first)
	if n := len(lost) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// whyEnded returns err with what is known of why the instance has ended.
func (w *instance) whyEnded(op string, err error) error {
	s := w.spoiled.Load()
	if s == nil || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: op, Resource: w.site.def.Name, Message: "the sandbox was ended with all that ran in it: " + s.why,
		Hint: "start it again: a new sandbox closes what is there now", Retryable: true,
	}
}

// missed reports whether a caller has to get a report that the sandbox is no more
// before something else is started in the next one. A caller that waited for what
// ran in a spoiled sandbox has got one already, so that leaves what no caller
// waits for.
func (w *instance) missed() bool {
	if w.replaced.Load() {
		return false // nothing ran
	}
	if w.spoiled.Load() != nil {
		return w.left.Load()
	}
	return w.fallen()
}

// tellEnd warns of an instance that its guard has ended.
func (w *instance) tellEnd() {
	if s := w.spoiled.Load(); s != nil && s.busy {
		w.site.p.o.Warn(w.site.def.Name, "the sandbox was ended with all that ran in it: "+s.why)
	}
}
