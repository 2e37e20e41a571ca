// Package replay keeps the answers of requests that carry an idempotency key,
// so that a caller who did not hear the answer can ask again and the thing is
// done once.
//
// An answer is a small file, whose name is a hash of the tenant and the key.
// It is written when it is known and before it is given, so a key that is
// found after a crash has its answer; one that is not found is done again, and
// so only what is safe to repeat may be kept here.
package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/statedir"
)

const (
	// Kept is how long an answer is kept.
	Kept = 24 * time.Hour

	maxAnswers = 10_000   // of one tenant
	maxFile    = 64 << 10 // bytes
	maxKey     = 128      // bytes
	op         = "use idempotency key"
)

// An Answer is what was said to a request.
type Answer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// entry is an answer as it lies on disk.
type entry struct {
	Request string    `json:"request"` // digest
	Until   time.Time `json:"until"`
	Answer
}

// Answers keeps answers below one folder. It is safe for concurrent use by one
// process; other processes must not use the folder.
type Answers struct {
	dir string
	now func() time.Time

	mu      sync.Mutex
	running map[string]chan struct{} // by name; closed when the request is done
	count   map[string]int           // of files, by the folder of a tenant
}

// Open returns the answers in the folder dir, which is made when it is missing.
func Open(dir string) (*Answers, error) {
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	return &Answers{dir: path, now: time.Now, running: map[string]chan struct{}{}, count: map[string]int{}}, nil
}

// Do returns the answer that the tenant's key has, or has do find it and keeps
// it. Of requests with one key that come at the same time one is done, and the
// others wait for it. A key that was used for another request, by its content,
// is [sandbox.CodeValidation]. An error of do is not kept.
func (a *Answers) Do(ctx context.Context, tenant, key string, content []byte, do func() (Answer, error)) (answer Answer, replayed bool, err error) {
	if !isKey(key) {
		return Answer{}, false, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "idempotencyKey", Message: "it is too long, or has other signs in it than visible ones of ASCII"}
	}
	sum := sha256.Sum256(content)
	request, path := hex.EncodeToString(sum[:]), filepath.Join(a.dir, nameOf("tenant", tenant), nameOf("key", key))
	leave, err := a.enter(ctx, path)
	if err != nil {
		return Answer{}, false, err
	}
	defer leave()
	had, ok, err := a.read(path)
	switch {
	case err != nil:
		return Answer{}, false, statedir.Unavailable(op, path, err)
	case ok && had.Request != request:
		return Answer{}, false, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "idempotencyKey", Message: "it was used for another request", Hint: "use a new key for each thing that is to be done"}
	case ok:
		return had.Answer, true, nil
	}
	if err := a.admit(filepath.Dir(path)); err != nil {
		return Answer{}, false, err
	}
	if answer, err = do(); err != nil {
		return Answer{}, false, err
	}
	return answer, false, a.write(path, entry{Request: request, Until: a.now().Add(Kept).UTC(), Answer: answer})
}

// enter waits until nobody else is at the key.
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

// read returns what is kept. What is damaged or too old is not.
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

// admit counts one answer more of a tenant.
func (a *Answers) admit(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return statedir.Unavailable(op, dir, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.count[dir]
	if !ok || n >= maxAnswers {
		files, err := os.ReadDir(dir)
		if err != nil {
			return statedir.Unavailable(op, dir, err)
		}
		n = len(files)
	}
	if n >= maxAnswers {
		return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: op, Field: "idempotencyKey", Message: "too many keys were used in the last day", Hint: "go on without a key, or use fewer", Retryable: true}
	}
	a.count[dir] = n + 1
	return nil
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

// Sweep takes away what is too old, and returns how many that were. It does so
// for as long as ctx lasts.
func (a *Answers) Sweep(ctx context.Context) (int, error) {
	tenants, err := os.ReadDir(a.dir)
	if err != nil {
		return 0, statedir.Unavailable("sweep idempotency keys", a.dir, err)
	}
	n, errs := 0, []error{}
	for _, t := range tenants {
		dir := filepath.Join(a.dir, t.Name())
		files, err := os.ReadDir(dir)
		errs = append(errs, err)
		for _, f := range files {
			if ctx.Err() != nil {
				return n, errors.Join(errs...)
			}
			gone, err := a.drop(ctx, filepath.Join(dir, f.Name()))
			errs = append(errs, err)
			if gone {
				n++
			}
		}
	}
	a.mu.Lock()
	clear(a.count) // counted anew
	a.mu.Unlock()
	return n, errors.Join(errs...)
}

// drop takes a file away unless it holds an answer that is still good.
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

// nameOf is a file name that tells nothing.
func nameOf(what, text string) string {
	sum := sha256.Sum256([]byte(what + "\x00" + text))
	return hex.EncodeToString(sum[:16])
}

func isKey(s string) bool {
	return s != "" && len(s) <= maxKey && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
