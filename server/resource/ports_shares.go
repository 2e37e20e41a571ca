// This file keeps the shares of ports: who may connect to which port of which
// sandbox, until when.

package resource

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	// sharesMost is how many shares of one sandbox may be in force at a time,
	// and sharesAll how many of all sandboxes.
	sharesMost, sharesAll = 64, 4096
	// shareUsual and shareLongest are how long a share is in force.
	shareUsual, shareLongest = time.Hour, 30 * 24 * time.Hour
)

// hostText writes bytes as host names may hold them.
func hostText(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// An Exposure asks for a share.
type Exposure struct {
	Record  registry.Record // of the sandbox
	Who     config.Who      // on whose behalf connections are made
	TokenID string          // of the caller; the share ends with the token. Empty is a user of this machine
	Port    int             // 0 is every port
	Public  bool            // no secret is needed
	Label   string          // names the sandbox in the host name: 16 to 40 of a-z and 0-9. Empty is an unguessable one
	Until   time.Time
}

// A share is one that is in force.
type share struct {
	ID       string     `json:"id"`
	Label    string     `json:"label"`
	Sandbox  string     `json:"sandbox"`
	Provider string     `json:"provider"`
	Made     time.Time  `json:"made"` // when the sandbox was made: another of its name is not shared
	Who      config.Who `json:"who"`
	TokenID  string     `json:"token,omitempty"`
	Port     int        `json:"port"`
	Public   bool       `json:"public,omitempty"`
	Created  time.Time  `json:"created"`
	Expires  time.Time  `json:"expires"`

	life context.Context // ends when the share is revoked or expires
	end  context.CancelCauseFunc
}

// shares are all shares. Their methods may be called concurrently.
type shares struct {
	file string // empty keeps nothing
	now  func() time.Time

	mu    sync.Mutex
	soon  bool // a save is about to begin
	swept time.Time
	err   error // why the file could not be read
	key   []byte
	all   map[string]*share // by id
}

// sharesFile is the form of the file.
type sharesFile struct {
	Key    []byte   `json:"key"`
	Shares []*share `json:"shares"`
}

// openShares reads the file. Where it cannot be read nothing is shared, and each
// call says why.
func openShares(file string) *shares {
	s := &shares{file: file, now: time.Now, all: map[string]*share{}, key: make([]byte, 32)}
	_, _ = rand.Read(s.key) // which never fails
	if file == "" {
		return s
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	var f sharesFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && len(f.Key) != len(s.key) {
		err = errors.New("the key is not whole")
	}
	if err != nil {
		s.err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "share", Resource: "ports.json", Message: "the shares of ports cannot be read", Hint: "remove the file ports.json of the state folder, which revokes all of them", Err: err}
		return s
	}
	s.key = f.Key
	for _, sh := range f.Shares {
		if sh != nil && sh.Expires.After(s.now()) {
			s.begin(sh)
		}
	}
	return s
}

// errShareOver is the cause of the end of connections of a share.
var errShareOver = &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "share", Message: "the link is revoked or has expired"}

// begin puts a share in force until it expires.
func (s *shares) begin(sh *share) {
	ctx, end := context.WithCancelCause(context.Background())
	var done context.CancelFunc
	sh.life, done = context.WithDeadlineCause(ctx, sh.Expires, errShareOver)
	sh.end = func(err error) { end(err); done() }
	s.all[sh.ID] = sh
}

// save writes the file. The caller holds mu.
func (s *shares) save() error {
	if s.file == "" {
		return nil
	}
	f := sharesFile{Key: s.key}
	for _, sh := range s.all {
		f.Shares = append(f.Shares, sh)
	}
	slices.SortFunc(f.Shares, func(a, b *share) int { return strings.Compare(a.ID, b.ID) })
	data, err := json.Marshal(f)
	if err == nil {
		err = renameio.WriteFile(s.file, append(data, '\n'), 0o600, renameio.WithStaticPermissions(0o600))
	}
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "share", Resource: "ports.json", Message: "the shares of ports cannot be written", Retryable: true, Err: err}
	}
	return nil
}

// saveWithin is how long a share of a label may be in force before the file has it.
const saveWithin = 50 * time.Millisecond

// saveSoon writes the file in the background, once for all shares that are made
// until then: one file for each sandbox of many that are created at once would make
// all of them wait. The caller holds mu. What a crash loses is a share, not the end
// of one.
func (s *shares) saveSoon() {
	if s.soon || s.file == "" {
		return
	}
	s.soon = true
	time.AfterFunc(saveWithin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.soon = false
		_ = s.save() // the next save writes what this one could not
	})
}

// labelled returns the newest share of the sandbox r with that label, and its
// secret, if it stays in force for so long.
func (s *shares) labelled(r registry.Record, label string, left time.Duration) (found share, secret string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := s.now().Add(left)
	for _, sh := range s.all {
		if sh.Label == label && sh.Port == 0 && sh.about(r) && sh.Expires.After(least) && (!ok || sh.Created.After(found.Created)) {
			found, ok = *sh, true
		}
	}
	if ok && !found.Public {
		secret = s.secretOf(&found)
	}
	return found, secret, ok
}

// sweepEvery is the time between two looks at which sandboxes of shares are gone.
const sweepEvery = time.Minute

// gone drops the shares whose sandbox no longer exists, of which exists decides. It
// does nothing shortly after it was called, unless there are too many shares.
func (s *shares) gone(exists func(share) bool) {
	s.mu.Lock()
	now := s.now()
	if len(s.all) == 0 || now.Sub(s.swept) < sweepEvery && len(s.all) < sharesAll {
		s.mu.Unlock()
		return
	}
	s.swept = now
	all := make([]*share, 0, len(s.all))
	for _, sh := range s.all {
		all = append(all, sh)
	}
	s.mu.Unlock()
	for _, sh := range all { // the records are read without the lock
		if exists(*sh) {
			continue
		}
		s.mu.Lock()
		if s.all[sh.ID] == sh {
			s.drop(sh)
			s.saveSoon()
		}
		s.mu.Unlock()
	}
}

// sum returns bytes that only the holder of the key can compute.
func (s *shares) sum(parts ...string) []byte {
	h := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return h.Sum(nil)
}

// labelOf names a sandbox in host names: always by the same text, which says
// nothing of it and cannot be guessed.
func (s *shares) labelOf(r registry.Record) string {
	return hostText(s.sum("label", r.Tenant, r.Provider, r.Name, r.CreatedAt.UTC().Format(time.RFC3339Nano))[:16])
}

// secretOf returns the secret of a share: a signature of what it is good for.
func (s *shares) secretOf(sh *share) string {
	sum := s.sum("share", sh.ID, sh.Label, sh.Sandbox, sh.Provider, sh.Made.UTC().Format(time.RFC3339Nano), strconv.Itoa(sh.Port), sh.Expires.UTC().Format(time.RFC3339Nano))
	return sh.ID + "." + hostText(sum)
}

// add puts a share in force and returns it with its secret, which is empty where
// the share is public.
func (s *shares) add(e Exposure) (share, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return share{}, "", s.err
	}
	now := s.now()
	label := e.Label
	if label == "" {
		label = s.labelOf(e.Record)
	}
	switch {
	case e.Port < 0 || e.Port > 65535:
		return share{}, "", Invalid("port", "is no number from 1 to 65535")
	case !isLabel(label):
		return share{}, "", Invalid("label", "is not 16 to 40 of a-z and 0-9")
	case !e.Until.After(now) || e.Until.After(now.Add(shareLongest+time.Minute)):
		return share{}, "", Invalid("ttlSeconds", "is not in the next 30 days")
	}
	s.sweep(now)
	of := 0
	for _, sh := range s.all {
		if sh.Sandbox == e.Record.Name && sh.Provider == e.Record.Provider {
			of++
		}
		if sh.Label == label && (sh.Sandbox != e.Record.Name || sh.Provider != e.Record.Provider || !sh.Made.Equal(e.Record.CreatedAt)) {
			return share{}, "", Invalid("label", "is that of another sandbox")
		}
	}
	if of >= sharesMost || len(s.all) >= sharesAll {
		return share{}, "", &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "share", Resource: e.Record.Name, Message: "too many ports are shared already", Hint: "revoke one of them: sandbox port revoke ID, or DELETE /v1/sandboxes/NAME/shares/ID"}
	}
	sh := &share{
		ID: strings.ToLower(rand.Text()[:16]), Label: label, Sandbox: e.Record.Name, Provider: e.Record.Provider, Made: e.Record.CreatedAt,
		Who: e.Who, TokenID: e.TokenID, Port: e.Port, Public: e.Public, Created: now.UTC().Truncate(time.Second), Expires: e.Until.UTC().Truncate(time.Second),
	}
	s.begin(sh)
	if e.Label != "" {
		s.saveSoon()
	} else if err := s.save(); err != nil {
		s.drop(sh)
		return share{}, "", err
	}
	if sh.Public {
		return *sh, "", nil
	}
	return *sh, s.secretOf(sh), nil
}

// sweep forgets shares that have expired. The caller holds mu.
func (s *shares) sweep(now time.Time) {
	for _, sh := range s.all {
		if !sh.Expires.After(now) {
			s.drop(sh)
		}
	}
}

// drop ends a share and its connections. The caller holds mu.
func (s *shares) drop(sh *share) {
	delete(s.all, sh.ID)
	sh.end(errShareOver)
}

// of lists the shares of a sandbox, the oldest first.
func (s *shares) of(r registry.Record) ([]share, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.sweep(s.now())
	var out []share
	for _, sh := range s.all {
		if sh.about(r) {
			out = append(out, *sh)
		}
	}
	slices.SortFunc(out, func(a, b share) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// about reports whether the share is one of the sandbox r.
func (sh *share) about(r registry.Record) bool {
	return sh.Sandbox == r.Name && sh.Provider == r.Provider && sh.Who.Tenant == r.Tenant && sh.Made.Equal(r.CreatedAt)
}

// revoke ends the share with that id, if may allows it, and its connections.
// Where the file cannot be written the share has ended all the same, until the
// daemon starts again, and the error says so.
func (s *shares) revoke(id string, may func(share) bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.all[id]
	if sh == nil || !may(*sh) {
		return false, nil
	}
	s.drop(sh)
	return true, s.save()
}

// find returns the share by which a request for label and port may pass, which
// has the secret; an empty secret has those that are public.
func (s *shares) find(label string, port int, secret string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, sh := range s.all {
		if sh.Label != label || sh.Port != 0 && sh.Port != port || !sh.Expires.After(now) {
			continue
		}
		if sh.Public || secret != "" && hmac.Equal([]byte(secret), []byte(s.secretOf(sh))) {
			return sh
		}
	}
	return nil
}

// isLabel reports whether s can name a sandbox in a host name.
func isLabel(s string) bool {
	return len(s) >= 16 && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// form returns the share as callers see it.
func (sh *share) form(domain string) api.Share {
	host := "PORT-" + sh.Label + "." + domain
	if sh.Port != 0 {
		host = strconv.Itoa(sh.Port) + "-" + sh.Label + "." + domain
	}
	return api.Share{ID: sh.ID, Sandbox: sh.Sandbox, Port: sh.Port, Host: host, Public: sh.Public, Created: sh.Created, Expires: sh.Expires}
}
