package store

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

const (
	// MaxDepth is how often a grant can be derived from a derived one.
	MaxDepth = 16

	// MaxID bounds the id of a grant, in bytes.
	MaxID = 256

	// grace is how long a revocation is kept after the grant has certainly
	// expired: the clock may be set back by less.
	grace = 10 * time.Minute
)

// Memory keeps revocations for one process. The zero value is ready. It is a
// [Watcher].
type Memory struct {
	hub    hub
	passed statedir.Clock

	mu      sync.Mutex
	revoked map[string]time.Time // until when it has to be kept; zero is for ever
	derived map[string]origin
	tidy    int // sweep when there are so many
}

// An origin is what a grant was derived from.
type origin struct {
	parent string
	until  time.Time
}

// Revoke takes the grant back, and with it all that were or will be derived
// from it. It is remembered until the grant has expired; a zero time is for
// ever.
func (m *Memory) Revoke(id string, expires time.Time) error {
	if err := checkID(id); err != nil {
		return err
	}
	m.mu.Lock()
	if m.revoked == nil {
		m.revoked = map[string]time.Time{}
	}
	if had, ok := m.revoked[id]; !ok || later(expires, had) {
		m.revoked[id] = expires
	}
	m.sweep()
	m.mu.Unlock()
	m.hub.release(func(line []string) bool { return slices.Contains(line, id) })
	return nil
}

// Derived notes that child was derived from parent and expires then. It has to
// be called before the child is used.
func (m *Memory) Derived(child, parent string, expires time.Time) error {
	if err := checkIDs(child, parent); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.derived == nil {
		m.derived = map[string]origin{}
	}
	if had, ok := m.derived[child]; ok && had.parent != parent {
		return another(child)
	}
	m.derived[child] = origin{parent, expires}
	m.sweep()
	return nil
}

// Revoked is that of [Watcher].
func (m *Memory) Revoked(id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	line, err := lineage(id, m.parent)
	return err != nil || m.any(line), err
}

// Watch is that of [Watcher].
func (m *Memory) Watch(ctx context.Context, id string) <-chan struct{} {
	m.mu.Lock()
	line, err := lineage(id, m.parent)
	m.mu.Unlock()
	w := &watch{line: line, closed: make(chan struct{})}
	m.hub.add(ctx, w)
	m.mu.Lock()
	gone := err != nil || m.any(line)
	m.mu.Unlock()
	if gone {
		m.hub.letGo(w)
	}
	return w.closed
}

// Forgotten is that of [Watcher].
func (m *Memory) Forgotten() (time.Time, error) { return m.passed.Time() }

// any reports whether one of the line was revoked. It is called with m.mu held.
func (m *Memory) any(line []string) bool {
	return slices.ContainsFunc(line, func(id string) bool { _, ok := m.revoked[id]; return ok })
}

func (m *Memory) parent(id string) (string, error) { return m.derived[id].parent, nil }

// sweep removes expired revocations, each time that there are twice as many as
// it left before. The caller holds m.mu.
func (m *Memory) sweep() {
	passed, err := m.passed.Advance(time.Minute) // from the first on: it takes time to be believed
	if err != nil || len(m.revoked)+len(m.derived) < max(m.tidy, 1024) {
		return
	}
	for id, until := range m.revoked {
		if over(until, passed) {
			delete(m.revoked, id)
		}
	}
	for id, o := range m.derived {
		if over(o.until, passed) {
			delete(m.derived, id)
		}
	}
	m.tidy = 2 * (len(m.revoked) + len(m.derived))
}

// over reports whether what has to be kept until then can be forgotten when the
// time passed has passed.
func over(until, passed time.Time) bool {
	return !until.IsZero() && !passed.Before(until.Round(0).Add(grace))
}

// later reports whether a is later than b; zero means for ever.
func later(a, b time.Time) bool {
	return !b.IsZero() && (a.IsZero() || a.After(b))
}

// lineage returns the grant and those that it was derived from, as parent
// returns them; "" means none.
func lineage(id string, parent func(string) (string, error)) ([]string, error) {
	line := []string{id}
	for {
		next, err := parent(id)
		if err != nil {
			return line, err
		}
		if next == "" {
			return line, nil
		}
		if len(line) > MaxDepth || slices.Contains(line, next) {
			return line, sandbox.Errorf(sandbox.CodeValidation, "look up grant", "a grant is derived more than %d times, or from itself", MaxDepth)
		}
		line, id = append(line, next), next
	}
}

func checkIDs(child, parent string) error {
	if child == parent {
		return sandbox.Errorf(sandbox.CodeValidation, "note derived grant", "a grant is derived from itself")
	}
	if err := checkID(child); err != nil {
		return err
	}
	return checkID(parent)
}

// maxPrefix is the most bytes that Name puts before an id.
const maxPrefix = 64 + 2

// checkID looks at a name as Name makes it.
func checkID(name string) error {
	id, prefix := name, 0
	if tenant, rest, ok := strings.Cut(strings.TrimPrefix(name, "\x00"), "\x00"); ok && name[0] == 0 {
		id, prefix = rest, len(tenant)+2
	}
	if agent, rest, ok := strings.Cut(strings.TrimPrefix(id, "\x01"), "\x01"); ok && id[0] == 1 && len(agent) <= maxPrefix {
		id = rest // of a name as Scoped makes it
	}
	if id == "" || len(id) > MaxID || prefix > maxPrefix || !utf8.ValidString(name) {
		return sandbox.Errorf(sandbox.CodeValidation, "check grant", "the id of a grant has 1 to %d bytes of UTF-8", MaxID)
	}
	return nil
}

func another(child string) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "note derived grant", Field: "parent", Resource: child,
		Message: "the grant was derived from another one",
	}
}
