package token

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/tenant"
)

const (
	// grace is how long an expired token stays listed.
	grace = time.Hour

	// leftover is the age at which a temporary file counts as abandoned.
	leftover = time.Hour

	// tidying is the time between two sweeps of one process.
	tidying = 10 * time.Minute

	// maxPerTenant bounds the tokens of a tenant: one that makes children for
	// ever does not fill the disk.
	maxPerTenant = 16384

	// maxPerSession bounds those of one session of a tenant. The bearer of such
	// a token may be an agent, and the bound leaves room for the tenant's other
	// sessions.
	maxPerSession = 512
)

// An account is a unit for which tokens are counted: a tenant, one session of
// it, or the valid tokens of the tenant that were made from others.
type account struct {
	tenant, session string // session is its key, which names the agent too
	children        bool
}

// bound is how many tokens an account may have, negative for any number, and
// when it is worth to ask again.
func (s *Store) bound(a account) (most int64, retry time.Duration) {
	switch {
	case a.session != "":
		return maxPerSession, tidying
	case a.children:
		return s.most(a.tenant), recounting
	}
	return maxPerTenant, tidying
}

// accountsOf are those that a token counts for.
func accountsOf(c Claims) []account {
	out := []account{{tenant: c.Tenant}}
	if c.Session != "" {
		out = append(out, account{tenant: c.Tenant, session: sandbox.SessionKey(c.Agent, c.Session)})
	}
	if c.Parent != "" {
		out = append(out, account{tenant: c.Tenant, children: true})
	}
	return out
}

// A Listing is the list of existing tokens.
type Listing struct {
	Tokens  []Listed // the newest first
	Damaged []string // paths of unreadable files and of files that are not tokens
}

// A Listed is a token with the reason why it is no longer valid, if any.
type Listed struct {
	Token
	Refused string // empty while the token is good
}

// List returns all tokens. It lists unreadable ones as such without returning
// an error.
func (s *Store) List() (Listing, error) {
	return s.list(func(record, error) (bool, error) { return true, nil })
}

// list returns the tokens whose records are wanted. It keeps nothing of other
// records, and does not check whether they are valid. The function wanted also
// receives the errors of unreadable records, and an error that it returns ends
// the list.
func (s *Store) list(wanted func(record, error) (bool, error)) (Listing, error) {
	var l Listing
	names, err := s.names("list tokens")
	if err != nil {
		return l, err
	}
	for _, name := range names {
		r, err := record{}, errDamaged
		if isID(name) {
			r, err = s.look(name)
		}
		if errors.Is(err, errMissing) { // revoked meanwhile
			continue
		}
		switch want, why := wanted(r, err); {
		case why != nil:
			return l, s.why(why)
		case err != nil:
			l.Damaged = append(l.Damaged, s.path(name))
			continue
		case !want:
			continue
		}
		one, err := s.listed(r)
		if err != nil {
			return l, err
		}
		l.Tokens = append(l.Tokens, one)
	}
	slices.SortFunc(l.Tokens, func(a, b Listed) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return l, nil
}

// listed returns the token of a record, with the reason why it is not valid, if
// any.
func (s *Store) listed(r record) (Listed, error) {
	t, err := s.whole(r)
	switch {
	case err == nil:
		return Listed{Token: t}, nil
	case Refused(err):
		return Listed{Token: Token{ID: r.ID, Claims: r.own(), Created: r.Created}, Refused: reason(err)}, nil
	}
	return Listed{}, err
}

// names returns the files of the folder that are no temporary ones.
func (s *Store) names(op string) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, statedir.Unavailable(op, s.dir, err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Revoke revokes the token and all tokens that were made from it, and returns
// their ids, its own first. The error for an unknown id is
// [sandbox.CodeNotFound]. From then on every process refuses the token, and
// when Revoke returns this will survive a loss of power. After an error this
// Store still refuses the token, and others may.
func (s *Store) Revoke(id string) (fallen []string, err error) {
	const op = "revoke token"
	if !isID(id) {
		return nil, badID(op)
	}
	if err := os.Remove(s.path(id)); errors.Is(err, fs.ErrNotExist) {
		if s.missing(id, err) == errMissing {
			return nil, noToken(op, id)
		}
		return nil, statedir.Unavailable(op, s.dir, err)
	} else if err != nil {
		s.mu.Lock()
		s.gone[id] = true
		s.mu.Unlock()
		return nil, statedir.Unavailable(op, s.path(id), err)
	}
	s.mu.Lock()
	s.revoked = true
	s.mu.Unlock()
	if err := statedir.SyncDir(s.dir); err != nil {
		return nil, statedir.Unavailable(op, s.dir, err)
	}
	// Its children are no longer valid, whatever happens to their files.
	fallen, err = s.below(id)
	for _, child := range fallen {
		if rmErr := os.Remove(s.path(child)); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, statedir.Unavailable(op, s.path(child), rmErr))
		}
	}
	return append([]string{id}, fallen...), err
}

// below returns the tokens that were made from the one called id.
func (s *Store) below(id string) ([]string, error) {
	names, err := s.names("revoke token")
	if err != nil {
		return nil, err
	}
	children := map[string][]string{}
	for _, name := range names {
		if r, _, err := read(filepath.Join(s.dir, name)); err == nil && r.Parent != "" {
			children[r.Parent] = append(children[r.Parent], name)
		}
	}
	out := children[id]
	for i := 0; i < min(len(out), len(names)); i++ {
		out = append(out, children[out[i]]...)
	}
	return out, nil
}

// A Swept is the result of a sweep.
type Swept struct {
	Removed int
	Kept    int
	Damaged []string // paths, which stay
}

// Sweep forgets tokens that have certainly expired an hour ago and those whose parent is
// gone.
func (s *Store) Sweep() (Swept, error) {
	const op = "sweep tokens"
	s.making.Lock() // otherwise tokens being made would not be counted
	defer s.making.Unlock()
	s.mu.Lock()
	s.revoked = false
	s.mu.Unlock()
	var out Swept
	passed, late := s.passed.Advance(0)
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return out, statedir.Unavailable(op, s.dir, err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == statedir.FileName })
	count := map[account]int64{}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		r, over, err := s.over(path, e, passed)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			out.Damaged = append(out.Damaged, path)
		case !over:
			out.Kept++
			for _, a := range accountsOf(r.Claims) {
				if !a.children || r.Expires.IsZero() || s.now().Before(r.Expires) {
					count[a]++
				}
			}
		default:
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return out, statedir.Unavailable(op, path, err)
			}
			out.Removed++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept, s.count = s.now(), count
	return out, late
}

// over returns the token at path and whether it can be removed, given that
// passed has certainly passed. It looks for a parent now, because a folder that
// changes while it is listed may lack files made in the meantime.
func (s *Store) over(path string, e fs.DirEntry, passed time.Time) (r record, over bool, err error) {
	if strings.HasPrefix(e.Name(), ".") { // being written, or left by a process that was killed
		fi, err := e.Info()
		return r, err == nil && s.now().Sub(fi.ModTime()) > leftover, err
	}
	if r, _, err = read(path); err != nil {
		return r, false, err
	}
	if !r.Expires.IsZero() && passed.Sub(r.Expires) > grace {
		return r, true, nil
	}
	if r.Parent == "" {
		return r, false, nil
	}
	_, err = os.Lstat(s.path(r.Parent))
	return r, errors.Is(err, fs.ErrNotExist) && s.missing(r.Parent, err) == errMissing, nil
}

// tidy sweeps now and then, which also counts the tokens. It reports no error,
// because the current caller does not depend on the result.
func (s *Store) tidy(now time.Time) {
	s.mu.Lock()
	due := now.Sub(s.swept) > tidying
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if due {
		_, _ = s.Sweep()
	}
}

// recounting is the time between two counts that are made because there seem to
// be too many tokens.
const recounting = time.Second

// enter counts one more token with the claims, or returns an error when there
// are too many. The next sweep counts what other processes make and remove, and
// what expires; so enter sweeps before it refuses a token for that reason. A
// caller that may go on calls leave, with whether the token was made.
func (s *Store) enter(c Claims) (leave func(made bool), err error) {
	leave, err = s.admit(c)
	if err != nil && s.recount() {
		leave, err = s.admit(c)
	}
	return leave, err
}

func (s *Store) admit(c Claims) (leave func(made bool), err error) {
	accounts := accountsOf(c)
	s.making.RLock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range accounts {
		if most, retry := s.bound(a); most >= 0 && s.count[a] >= most {
			s.making.RUnlock()
			e := &tenant.Exceeded{Account: "tenant " + a.tenant, Quota: "tokens", Limit: most, Used: s.count[a], Want: 1, RetryAfter: retry}
			return nil, e.Wrap(create)
		}
	}
	s.add(accounts, 1)
	return func(made bool) {
		if !made {
			s.mu.Lock()
			s.add(accounts, -1)
			s.mu.Unlock()
		}
		s.making.RUnlock()
	}, nil
}

// add counts n more tokens for the accounts. The mutex is held.
func (s *Store) add(accounts []account, n int64) {
	for _, a := range accounts {
		s.count[a] += n
	}
}

// recount counts anew, unless that was just done and nothing was revoked since.
func (s *Store) recount() bool {
	s.mu.Lock()
	due := s.revoked || s.now().Sub(s.swept) >= recounting
	s.mu.Unlock()
	if !due {
		return false
	}
	_, err := s.Sweep()
	return err == nil
}
