// Package store keeps revocations of grants and used decision keys. It ends
// operations that run under a grant when the grant expires, or when the grant
// or one that it was derived from is revoked.
//
// Revocations are kept in a folder, for all processes of the host and beyond
// their ends ([Folder]), or in memory ([Memory]). When it cannot be determined
// whether a grant was revoked, it counts as revoked.
package store

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// Delay is how long after a revocation or an expiry contexts have ended at the
// latest, on a machine that is not overloaded.
const Delay = 200 * time.Millisecond

// tick is the longest time between two looks at the wall clock: a timer alone
// stands still while the machine sleeps, and does not notice that the clock was
// set.
const tick = 100 * time.Millisecond

// A Watcher reports revocations. It is safe for concurrent use.
type Watcher interface {
	// Revoked reports whether the grant with that id was revoked, or one that
	// it was derived from. When that cannot be determined it returns true, and
	// an error that says why.
	Revoked(id string) (bool, error)

	// Watch returns a channel that is closed when Revoked has become true, at
	// most [Delay] afterwards. It takes no more notice when ctx has ended.
	Watch(ctx context.Context, id string) <-chan struct{}

	// Forgotten returns a time that has certainly passed. Revocations of grants
	// that have expired by then may be removed, so those grants count as
	// expired, however the clock is set. It returns an error when the time
	// cannot be determined.
	Forgotten() (time.Time, error)
}

// Name returns the name of a tenant's grant here: the id alone when the tenant
// is empty. Tenants choose ids, and the same id of two tenants means two
// grants.
func Name(tenant, id string) string {
	switch {
	case tenant != "":
		return "\x00" + tenant + "\x00" + id // no name of a tenant holds a NUL
	case strings.HasPrefix(id, "\x00"):
		return "\x00\x00" + id
	}
	return id
}

// Scoped returns the name of an agent's grant for callers that may act for that
// agent alone: a revocation under this name ends no grant of another agent,
// whatever its id. An empty agent is the default one.
func Scoped(tenant, agent, id string) string {
	return Name(tenant, "\x01"+cmp.Or(agent, sandbox.DefaultAgent)+"\x01"+id) // no name of an agent holds such a sign
}

// A Noter learns which grant was derived from which; [Folder] and [Memory] are ones.
type Noter interface {
	Derived(child, parent string, expires time.Time) error
}

// Note has n learn that child was derived from parent, by the names of both.
func Note(n Noter, child, parent grant.Grant) error {
	if err := n.Derived(Name(child.Tenant, child.ID), Name(parent.Tenant, parent.ID), child.Expires); err != nil {
		return err
	}
	return n.Derived(Scoped(child.Tenant, child.Agent, child.ID), Scoped(parent.Tenant, parent.Agent, parent.ID), child.Expires)
}

// names are those under which the grant may have been revoked.
func names(g grant.Grant) []string {
	out := []string{Name(g.Tenant, g.ID), Scoped(g.Tenant, g.Agent, g.ID)}
	if g.Parent != "" {
		out = append(out, Name(g.Tenant, g.Parent))
	}
	return out
}

// Revoked reports whether the grant was revoked, by any of its names.
func Revoked(w Watcher, g grant.Grant) (bool, error) {
	for _, name := range names(g) {
		if revoked, err := w.Revoked(name); revoked || err != nil {
			return revoked, err
		}
	}
	return false, nil
}

// Check returns an error with [sandbox.CodePermissionDeny] when the grant has
// expired, at now or so long ago that it may be forgotten, or was revoked, and
// an error with another code when that cannot be determined.
func Check(w Watcher, g grant.Grant, now time.Time) error {
	if g.ID == "" {
		return sandbox.Errorf(sandbox.CodeValidation, "use grant", "a grant without an id cannot be revoked")
	}
	if !now.Round(0).Before(g.Expires.Round(0)) { // by the wall clock
		return expired(g)
	}
	passed, err := w.Forgotten()
	if err != nil {
		return unknown(g, err)
	}
	if !g.Expires.Round(0).After(passed) {
		return expired(g)
	}
	revoked, err := Revoked(w, g)
	switch {
	case err != nil:
		return unknown(g, err)
	case revoked:
		return taken(g)
	}
	return nil
}

// Context returns a context that ends when the grant does, with the cause that
// [Check] would return. It has already ended for a grant that cannot be used
// now. The caller must call the returned function, which ends the context, too.
func Context(ctx context.Context, w Watcher, g grant.Grant) (context.Context, context.CancelFunc) {
	held, end := context.WithCancelCause(ctx)
	cancel := func() { end(context.Canceled) }
	if err := Check(w, g, time.Now()); err != nil {
		end(err)
		return held, cancel
	}
	all := []<-chan struct{}{nil, nil, nil}
	for i, name := range names(g) {
		all[i] = w.Watch(held, name)
	}
	go hold(held, end, w, g, all[0], all[1], all[2])
	return held, cancel
}

// hold waits for the end of the grant.
func hold(ctx context.Context, end context.CancelCauseFunc, w Watcher, g grant.Grant, own, scoped, parent <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(min(tick, max(0, time.Until(g.Expires.Round(0)))))
		select {
		case <-ctx.Done():
			return
		case <-own:
			end(why(w, g))
			return
		case <-scoped:
			end(why(w, g))
			return
		case <-parent:
			end(why(w, g))
			return
		case <-timer.C:
			if !time.Now().Round(0).Before(g.Expires.Round(0)) {
				end(expired(g))
				return
			}
		}
	}
}

// why returns the cause of an end that a watcher has reported. A watcher that
// no longer confirms the revocation counts as unable to determine it.
func why(w Watcher, g grant.Grant) error {
	if err := Check(w, g, time.Now()); err != nil {
		return err
	}
	return unknown(g, errors.New("the watcher gave a signal and no reason"))
}

func expired(g grant.Grant) error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: "use grant", Field: "expires", Resource: g.ID,
		Message: "the grant expired at " + g.Expires.UTC().Format(time.RFC3339),
		Hint:    "ask for a new grant",
	}
}

func taken(g grant.Grant) error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: "use grant", Field: "id", Resource: g.ID,
		Message: "the grant was revoked, or one that it was derived from",
		Hint:    "ask for a new grant",
	}
}

func unknown(g grant.Grant, cause error) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "use grant", Field: "id", Resource: g.ID, Err: cause, Retryable: true,
		Message: "it is not known whether the grant was revoked, so it counts as revoked",
	}
}
