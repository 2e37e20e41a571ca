// This file records which call has used a decision key, so that one decision
// serves one call only, across processes and concurrent requests.
//
// A used key is a small file whose name is a hash of the tenant and the key.
// The file gets its name when it is complete, and a name is given once: of
// calls that race exactly one wins, and a process that is killed leaves a whole
// entry or none. An unreadable entry counts as used by an unknown call, and
// where nothing can be written nothing is granted.

package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// Unknown is the call that has used a key whose entry cannot be read. No call
// can have that name.
const decisionUnknown = "?"

const (
	// grace is how long an entry is kept after its grant has expired: clocks
	// are set back a little, and a decision is not to be had again by that.
	decisionGrace = time.Hour

	// maxText bounds tenants, keys and calls, in bytes.
	maxText = 256

	// maxKnown bounds the entries that a process remembers.
	decisionMaxKnown = 4096

	// tries bounds how often an entry may go away between two looks at it.
	tries = 8
)

// Keys are the used decision keys, below one folder. It is safe for concurrent
// use, also by other processes, and keeps no file open.
type Keys struct {
	dir string
	now func() time.Time

	passed *statedir.Clock // what it says has expired may be forgotten, and is refused

	mu    sync.Mutex
	known map[string]entry     // what calls of this process have used, by name
	swept map[string]time.Time // when this process has swept a shard
}

// OpenDecision returns the keys in the folder dir, which is made with mode 0700
// when it is missing and refused as [statedir.MakePrivate] does. When it goes
// away later no key can be used any more.
func OpenDecision(dir string) (*Keys, error) {
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	return &Keys{
		dir: path, now: time.Now, passed: statedir.In(path),
		known: map[string]entry{}, swept: map[string]time.Time{},
	}, nil
}

// Use has call use the key of a decision and returns the call that has used it
// first, which is call itself where the key is its own: a call may use its key
// again. Any other answer, [Unknown] among them, means that call may not have
// it.
//
// The entry is kept until some time after expires, which is when the grant of
// the decision does: what has expired is [sandbox.CodePermissionDeny], also when
// the clock was set back since, see package past. It
// returns when the entry will survive a loss of power. An error, which is
// [sandbox.CodeUnavailable] where the folder cannot be used, is a refusal.
func (k *Keys) Use(tenant, key, call string, expires time.Time) (usedBy string, err error) {
	if err := check(tenant, key, call); err != nil {
		return "", err
	}
	over, err := k.passed.Over(expires)
	if err != nil {
		return "", err
	}
	if over || !k.now().Before(expires) {
		return "", &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Field: "expires", Message: "the decision has expired", Hint: "ask for a new one"}
	}
	e := entry{name: nameOf(tenant, key), Call: call, Until: expires.UnixMilli()}
	if k.has(e) {
		return call, nil
	}
	path := filepath.Join(k.dir, shardOf(e.name), e.name)
	for range tries {
		had, err := read(path)
		switch {
		case errors.Is(err, errDecisionDamaged):
			return decisionUnknown, nil
		case err == nil && had.Call != call:
			return had.Call, nil
		case err == nil:
			err = k.extend(path, had, e)
		case errors.Is(err, fs.ErrNotExist):
			err = k.create(path, e)
		}
		switch {
		case err == nil:
			k.keep(e)
			return call, nil
		case errors.Is(err, fs.ErrExist), errors.Is(err, errGone):
			continue // by another call, or by a sweep
		}
		return "", statedir.Unavailable(op, path, err)
	}
	return "", &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: path, Message: "the entry of the key comes and goes", Retryable: true}
}

const op = "use decision key"

// check refuses what cannot be written down as it is.
func check(tenant, key, call string) error {
	for _, t := range []struct{ field, text string }{{"tenant", tenant}, {"decisionKeyFingerprint", key}, {"call", call}} {
		if t.field == "tenant" && t.text == "" { // where there are no tenants
			continue
		}
		if !isText(t.text) || t.field == "call" && t.text == decisionUnknown {
			return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: t.field,
				Message: "it is missing, too long, or has blanks or signs that are not ASCII in it"}
		}
	}
	return nil
}

// isText reports whether s is what package grant takes for an id.
func isText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxText
}

// has reports whether this process knows that the key is the call's, for as
// long as e says.
func (k *Keys) has(e entry) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	had, ok := k.known[e.name]
	return ok && had.Call == e.Call && had.Until >= e.Until
}

func (k *Keys) keep(e entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= decisionMaxKnown {
		clear(k.known)
	}
	k.known[e.name] = e
}
