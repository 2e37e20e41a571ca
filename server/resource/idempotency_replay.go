// This file keeps the answers of requests that carry an idempotency key, so that
// a caller that did not receive the answer can repeat the request without
// repeating its effect.
//
// An answer is a small file below folders for its tenant and for the owner of
// the key; the names of all three are hashes. It is written when it is known and
// before it is sent, so a key that is found after a crash has its answer; a
// request whose key is not found is carried out again, so only requests that are
// safe to repeat may be kept here.

package resource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

const (
	// Kept is how long an answer is kept.
	idempotencyKept = 24 * time.Hour

	maxAnswers = 10_000   // of one tenant, and of one of its agents
	maxSession = 500      // of one session
	maxFile    = 64 << 10 // bytes
	maxKey     = 128      // bytes
	op         = "use idempotency key"
)

// An idempotencyAnswer is the stored answer to a request.
type idempotencyAnswer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// entry is the form of an answer on disk.
type entry struct {
	Request string    `json:"request"` // digest
	Until   time.Time `json:"until"`
	idempotencyAnswer
}

// Answers keeps answers below one folder. It is safe for concurrent use by one
// process; other processes must not use the folder.
type Answers struct {
	dir string
	now func() time.Time

	mu      sync.Mutex
	running map[string]chan struct{} // by name; closed when the request is done
	count   map[string]int           // of files, by their folder
}

// Open returns the answers in the folder dir, which is made when it is missing.
func Open(dir string) (*Answers, error) {
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	return &Answers{dir: path, now: time.Now, running: map[string]chan struct{}{}, count: map[string]int{}}, nil
}

// An idempotencyOwner is the owner of keys. Keys of one owner are independent of
// those of another, and displace none of them.
type idempotencyOwner struct {
	Tenant  string
	Agent   string // empty where the caller is bound to none
	Session string // empty where the caller is bound to none
}

// folder returns the folder of the owner's answers below dir.
func (o idempotencyOwner) folder(dir string) string {
	space := nameOf("agent", o.Agent)
	if o.Session != "" {
		space = nameOf("session", sandbox.SessionKey(o.Agent, o.Session))
	}
	return filepath.Join(dir, nameOf("tenant", o.Tenant), space)
}

// most returns how many answers of the owner are kept.
func (o idempotencyOwner) most() int {
	if o.Session != "" {
		return maxSession
	}
	return maxAnswers
}

// Do returns the answer of the owner's key, or calls do and keeps its answer.
// Where the owner has too many answers it removes the oldest. Of concurrent
// requests with one key one calls do, and the others wait for its answer. A key
// that was used for a request with other content is [sandbox.CodeValidation]. An
// error of do is not kept.
func (a *Answers) Do(ctx context.Context, of idempotencyOwner, key string, content []byte, do func() (idempotencyAnswer, error)) (answer idempotencyAnswer, replayed bool, err error) {
	if !isKey(key) {
		return idempotencyAnswer{}, false, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "idempotencyKey", Message: "it is too long, or has other signs in it than visible ones of ASCII"}
	}
	sum := sha256.Sum256(content)
	request, path := hex.EncodeToString(sum[:]), filepath.Join(of.folder(a.dir), nameOf("key", key))
	leave, err := a.enter(ctx, path)
	if err != nil {
		return idempotencyAnswer{}, false, err
	}
	defer leave()
	had, ok, err := a.read(path)
	switch {
	case err != nil:
		return idempotencyAnswer{}, false, statedir.Unavailable(op, path, err)
	case ok && had.Request != request:
		return idempotencyAnswer{}, false, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "idempotencyKey", Message: "it was used for another request", Hint: "use a new key for each thing that is to be done"}
	case ok:
		return had.idempotencyAnswer, true, nil
	}
	if err := a.admit(filepath.Dir(path), of.most()); err != nil {
		return idempotencyAnswer{}, false, err
	}
	if answer, err = do(); err != nil {
		return idempotencyAnswer{}, false, err
	}
	return answer, false, a.write(path, entry{Request: request, Until: a.now().Add(idempotencyKept).UTC(), idempotencyAnswer: answer})
}

// enter waits until no other request uses the key.
func (a *Answers) enter(ctx context.Context, path string) (leave func(), err error) {
	for {
		a.mu.Lock()
		wait := a.running[path]
		if wait == nil {
			done := make(chan struct{})
			a.running[path] = done
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				delete(a.running, path)
				a.mu.Unlock()
				close(done)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Message: "the first request with this key is not done yet", Retryable: true, Err: ctx.Err()}
		}
	}
}

// read returns the kept answer. It ignores one that is damaged or too old.
func (a *Answers) read(path string) (entry, bool, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return entry{}, false, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return entry{}, false, err
	}
	var e entry
	if json.Unmarshal(data, &e) != nil || e.Request == "" || !a.now().Before(e.Until) {
		return entry{}, false, nil
	}
	return e, true, nil
}

// admit counts one more answer in a folder, and removes the oldest where there
// are most already: some more than needed, so that not every request has to list
// the folder.
func (a *Answers) admit(dir string, most int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return statedir.Unavailable(op, dir, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.count[dir]
	if !ok || n >= most {
		var err error
		if n, err = trim(dir, most-1, most/10); err != nil {
			return statedir.Unavailable(op, dir, err)
		}
	}
	a.count[dir] = n + 1
	return nil
}

// trim removes the oldest files of a folder where it has more than most, and
// spare more of them. It returns how many are left.
func trim(dir string, most, spare int) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= most {
		return len(entries), err
	}
	type aged struct {
		name string
		at   time.Time
	}
	files := make([]aged, 0, len(entries))
	for _, e := range entries {
		if fi, err := e.Info(); err == nil { // else it is gone
			files = append(files, aged{e.Name(), fi.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b aged) int { return a.at.Compare(b.at) })
	n := max(0, min(len(files), len(files)-most+spare))
	for _, f := range files[:n] {
		if err := os.Remove(filepath.Join(dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return len(files) - n, nil
}

func (a *Answers) write(path string, e entry) error {
	data, err := json.Marshal(e)
	if err == nil && len(data) > maxFile {
		err = errors.New("the answer is too large to be kept")
	}
	if err == nil {
		err = renameio.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return statedir.Unavailable(op, path, err)
	}
	return nil
}

// Sweep removes answers that are too old, and returns how many. It stops when
// ctx ends.
func (a *Answers) Sweep(ctx context.Context) (int, error) {
	n, errs, dirs := 0, []error{}, []string{}
	err := filepath.WalkDir(a.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			errs = append(errs, err)
			return nil
		case e.IsDir():
			if path != a.dir {
				dirs = append(dirs, path)
			}
			return nil
		}
		gone, err := a.drop(ctx, path)
		errs = append(errs, err)
		if gone {
			n++
		}
		return nil
	})
	if err != nil {
		return n, statedir.Unavailable("sweep idempotency keys", a.dir, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.count) // counted anew
	for _, dir := range slices.Backward(dirs) {
		if !a.busy(dir) {
			_ = os.Remove(dir) // which says no where something is in it
		}
	}
	return n, errors.Join(errs...)
}

// busy reports whether a request uses a key below dir. The lock is held.
func (a *Answers) busy(dir string) bool {
	for path := range a.running {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// drop removes a file unless it holds an answer that is still valid.
func (a *Answers) drop(ctx context.Context, path string) (bool, error) {
	leave, err := a.enter(ctx, path)
	if err != nil {
		return false, nil
	}
	defer leave()
	if _, ok, err := a.read(path); ok || err != nil {
		return false, err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// nameOf returns a file name that does not reveal text.
func nameOf(what, text string) string {
	sum := sha256.Sum256([]byte(what + "\x00" + text))
	return hex.EncodeToString(sum[:16])
}

func isKey(s string) bool {
	return s != "" && len(s) <= maxKey && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
