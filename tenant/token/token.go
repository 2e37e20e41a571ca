// Package token makes and checks the bearer tokens with which programs
// authenticate to the daemon, for one tenant or for all.
//
// A token's secret is returned once and stored nowhere; only its hash is kept,
// in one small file for each token. A token is valid while its file exists and
// while those of all the tokens that it was made from do: revoking one removes
// its file, which takes effect at once in every process of the host, because
// each check looks whether the files are still the same. A damaged file costs
// its token and those below it, and no other.
//
// A child token has at most the permissions of its parent: that is checked when
// it is made, and again each time it is used.
package token

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	tenants "github.com/bulkhead-dev/sandbox/tenant"
)

const (
	// maxDepth bounds how many tokens one may descend from, itself included.
	maxDepth = 8

	// maxKnown bounds the records that a process remembers.
	maxKnown = 4096

	verify = "verify token"
)

// A Token is what a secret stands for.
type Token struct {
	ID string `json:"id"`
	Claims
	Created time.Time `json:"created"`

	// Above are the tokens that it was made from, the parent first.
	Above []Token `json:"-"`
}

// Accounts returns the accounts that the bearer uses when it acts for the
// tenant: the tenant, with its limits, and the token and those above it as far
// as they have quotas. The account of a tenant never has the name of a token's
// account.
func (t Token) Accounts(tenant string, limits tenants.Limits) []tenants.Account {
	out := []tenants.Account{{Name: "tenant " + tenant, Limits: limits}}
	for _, one := range append([]Token{t}, t.Above...) {
		if one.Quota != nil {
			out = append(out, tenants.Account{Name: "token " + one.ID, Limits: *one.Quota})
		}
	}
	return out
}

// Budgeted returns the token and those above it, in that order, as far as they
// have budgets.
func (t Token) Budgeted() []Token {
	var out []Token
	for _, one := range append([]Token{t}, t.Above...) {
		if one.Budget != nil {
			out = append(out, one)
		}
	}
	return out
}

// A Store keeps tokens below one folder. It is safe for concurrent use, also by
// other processes, and keeps no file open.
type Store struct {
	dir  string
	now  func() time.Time
	read func(path string) (record, stamp, error) // what lies there

	passed *statedir.Clock // what it says has expired is over, however the clock is set

	most func(tenant string) int64 // children that are good; negative is no bound

	making sync.RWMutex // held to read while a token is made, and to write while all are counted

	mu      sync.Mutex
	known   map[string]known // records by id
	gone    map[string]bool  // what this process has revoked where the disk failed
	swept   time.Time
	revoked bool              // something was revoked since
	count   map[account]int64 // tokens, about
}

type known struct {
	stamp  stamp
	record record
}

// An Option changes what a Store does.
type Option func(*Store)

// AtMost bounds how many tokens of a tenant, made from others, may be valid at
// one time; the empty tenant has those of admins. A negative number means only
// the bound of each folder. children is called each time a token is made.
func AtMost(children func(tenant string) int64) Option {
	return func(s *Store) { s.most = children }
}

// Open returns the tokens in the folder dir. It creates the folder with mode
// 0700 when it is missing and refuses it as [statedir.MakePrivate] does. When
// the folder is removed later, no token is valid any more.
func Open(dir string, options ...Option) (*Store, error) {
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: path, now: time.Now, read: read, passed: statedir.In(path), most: func(string) int64 { return tenants.Unlimited }, known: map[string]known{}, gone: map[string]bool{}, count: map[account]int64{}}
	for _, o := range options {
		o(s)
	}
	return s, nil
}

// Create makes a token. It returns the secret, which is not available later,
// and the id, which names the token from then on. For a child, a token with a
// Parent, missing claims are the parent's; claims that exceed the parent's are
// [sandbox.CodePermissionDeny], as is a parent that is not valid. A token that
// gets no expiry in this way is valid for [Usual], unless it is to be Endless.
// When the tenant has too many already the error is
// [sandbox.CodeBudgetExceeded]. Create returns when the token will survive a
// loss of power.
func (s *Store) Create(c Claims) (secret, id string, err error) {
	now := s.now()
	var parent Token
	if c.Parent != "" {
		if parent, err = s.Get(c.Parent); err != nil {
			return "", "", badParent(c.Parent, err)
		}
		c = c.inherit(parent.Claims)
	}
	if c.Expires.IsZero() && !c.Endless {
		c.Expires = now.Add(Usual)
	}
	c = c.own()
	if err := c.check(); err != nil {
		return "", "", err
	}
	if !c.Expires.IsZero() && !now.Before(c.Expires) {
		return "", "", &sandbox.Error{Code: sandbox.CodeValidation, Op: create, Field: "expires", Message: "it is in the past"}
	}
	if c.Parent != "" {
		if err := c.within(parent.Claims); err != nil {
			return "", "", err
		}
		if len(parent.Above)+2 > maxDepth {
			return "", "", &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: create, Field: "parent", Message: "too many tokens are above it already", Hint: "make it from one that is higher up"}
		}
	}
	s.tidy(now)
	leave, err := s.enter(c)
	if err != nil {
		return "", "", err
	}
	defer func() { leave(err == nil) }()
	secret = newSecret()
	hash := hashOf(secret)
	r := record{ID: idOf(secret), Hash: hex.EncodeToString(hash[:]), Claims: c, Created: now.UTC().Truncate(time.Millisecond)}
	if err := write(s.path(r.ID), r); err != nil {
		return "", "", statedir.Unavailable(create, s.dir, err)
	}
	return secret, r.ID, nil
}

// Adopt makes the token of a secret that was made elsewhere, such as one that is
// handed to several servers, and returns its id. A token of that secret which is there
// already gets these claims. A secret that has not the form of one is
// [sandbox.CodeValidation]; no error contains any part of it. Adopt returns when the
// token will survive a loss of power.
func (s *Store) Adopt(secret string, c Claims) (id string, err error) {
	const op = "adopt token"
	if !wellFormed(secret) {
		return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Message: malformed, Hint: "make one with: sandbox token create"}
	}
	c = c.own()
	if err := c.check(); err != nil {
		return "", err
	}
	hash := hashOf(secret)
	r := record{ID: idOf(secret), Hash: hex.EncodeToString(hash[:]), Claims: c, Created: s.now().UTC().Truncate(time.Millisecond)}
	if err := write(s.path(r.ID), r); err != nil {
		return "", statedir.Unavailable(op, s.dir, err)
	}
	return r.ID, nil
}

func badParent(id string, err error) error {
	if code := sandbox.CodeOf(err); code == sandbox.CodeUnavailable || code == sandbox.CodeValidation {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: create, Field: "parent", Resource: id,
		Message: "no token can be made from a parent that is not good", Hint: "see sandbox token list",
	}
}

// Verify returns the token that a secret belongs to. It refuses a secret that
// belongs to no token, or no longer does, with an error of which [Refused] is
// true; [sandbox.CodeUnavailable] means that this cannot be determined now. No
// error contains any part of the secret.
func (s *Store) Verify(secret string) (Token, error) {
	if !wellFormed(secret) {
		return Token{}, refuse(malformed)
	}
	r, err := s.look(idOf(secret))
	if err != nil {
		return Token{}, s.why(err)
	}
	want, err := hex.DecodeString(r.Hash)
	got := hashOf(secret)
	if err != nil || subtle.ConstantTimeCompare(got[:], want) != 1 {
		return Token{}, refuse(unknown)
	}
	return s.whole(r)
}

// Why a secret is refused that no token is found for.
const (
	malformed = "it is no token, or was mistyped or cut off"
	unknown   = "it is not known: it was revoked, or is for another server"
)

// Get returns the token id as long as it is valid. The error is
// [sandbox.CodeNotFound] when there is none, and [sandbox.CodePermissionDeny]
// when it is not valid; that concerns the token and not the caller, so it is
// not [Refused].
func (s *Store) Get(id string) (Token, error) {
	const op = "get token"
	if !isID(id) {
		return Token{}, badID(op)
	}
	r, err := s.look(id)
	if errors.Is(err, errMissing) {
		return Token{}, noToken(op, id)
	}
	var t Token
	if err != nil {
		err = s.why(err)
	} else {
		t, err = s.whole(r)
	}
	if Refused(err) {
		err = &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Field: "id", Resource: id, Message: reason(err), Hint: "see sandbox token list"}
	}
	return t, err
}

// whole returns the token of a record with those above it, when all are valid.
func (s *Store) whole(r record) (Token, error) {
	now := s.now()
	passed, err := s.passed.Time()
	if err != nil {
		return Token{}, err
	}
	t := Token{ID: r.ID, Claims: r.own(), Created: r.Created}
	for {
		if !r.Expires.IsZero() && (!now.Before(r.Expires) || !passed.Before(r.Expires)) {
			return Token{}, refuse("it has expired")
		}
		if r.Parent == "" {
			return t, nil
		}
		if len(t.Above)+2 > maxDepth {
			return Token{}, refuse("too many tokens are above it")
		}
		parent, err := s.look(r.Parent)
		if errors.Is(err, errMissing) {
			return Token{}, refuse("the token that it was made from was revoked")
		}
		if err != nil {
			return Token{}, s.why(err)
		}
		if r.within(parent.Claims) != nil {
			return Token{}, refuse("it claims more than the token that it was made from")
		}
		t.Above = append(t.Above, Token{ID: parent.ID, Claims: parent.own(), Created: parent.Created})
		r = parent
	}
}

// look returns the record of a token as it is on disk now. Only when its file
// is not the one that was read before it is read again. A missing one is
// errMissing.
func (s *Store) look(id string) (record, error) {
	path := s.path(id)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return record{}, s.missing(id, err)
	}
	at := stampOf(&st)
	s.mu.Lock()
	had, gone := s.known[id], s.gone[id]
	s.mu.Unlock()
	switch {
	case gone:
		return record{}, errMissing
	case had.stamp == at:
		return had.record, nil
	}
	r, at, err := s.read(path)
	if err != nil {
		return record{}, s.missing(id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[id] = known{at, r}
	return r, nil
}

// errMissing is about a token whose file is not there, while its folder is. An
// error about the folder has the same cause.
var errMissing = errors.New("there is no such token")

// missing distinguishes a missing file from a missing folder. The folder may have come
// back since the file was not found, as that of a disk that was away, so the file is
// looked for once more, in the folder that is opened here.
func (s *Store) missing(id string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := unix.Open(s.dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return statedir.Unavailable(verify, s.dir, err)
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, id, &st, unix.AT_SYMLINK_NOFOLLOW); err {
	case unix.ENOENT:
		return errMissing
	case nil:
		return statedir.Unavailable(verify, s.dir, errors.New("the folder was away for a moment"))
	default:
		return statedir.Unavailable(verify, s.dir, err)
	}
}

// why is the error about a record that could not be had.
func (s *Store) why(err error) error {
	switch {
	case errors.Is(err, errMissing):
		return refuse(unknown)
	case errors.Is(err, errDamaged):
		return refuse("what is kept of it, or of the one that it was made from, is damaged")
	}
	return statedir.Unavailable(verify, s.dir, err)
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id) }
