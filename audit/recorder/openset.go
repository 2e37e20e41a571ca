package recorder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// Bounds of a writer file.
const (
	maxTenants  = 4096
	maxFileSize = 8 << 20
	tries       = 8           // to create one; a sweeper may take the new file for a dead writer's
	slack       = time.Minute // for begins that overtake each other
)

// madePrefix begins the name of a file that is not a writer's yet.
const madePrefix = ".new-"

// A line is one line of a writer file. The first has Since.
type line struct {
	Since  time.Time `json:"since,omitzero"` // no begin of the writer is older
	Tenant *string   `json:"tenant,omitempty"`
	All    bool      `json:"all,omitempty"` // any tenant may be concerned
}

// An openSet is the file of a writer: the kernel holds its lock as long as the
// writer lives, and its lines say where to look for the operations that the
// writer has begun. A tenant is entered before the first begin of that tenant
// is written.
type openSet struct {
	dir, id string
	sync    bool

	mu      sync.Mutex
	f       *os.File // nil until something begins, and after the end
	over    bool
	dirty   bool // a line may be torn
	all     bool
	since   time.Time
	tenants map[string]bool
}

// enter sees to it that the tenants of begins among rs are on the roll.
func (r *openSet) enter(rs []evidence.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range rs {
		if rec.Type != evidence.TypeBegin || rec.Omitted > 0 {
			continue
		}
		if r.f != nil && (r.all || r.tenants[rec.Tenant]) && !rec.Time.Before(r.since) {
			continue
		}
		if err := r.add(rec.Tenant, rec.Time); err != nil {
			return statedir.Unavailable("record evidence", filepath.Join(r.dir, r.id), err)
		}
	}
	return nil
}

// add puts a tenant on the roll, and a time when clocks were set back.
func (r *openSet) add(tenant string, at time.Time) error {
	if r.over {
		return errors.New("the writer has ended")
	}
	if r.f == nil {
		if err := r.begin(at); err != nil {
			return err
		}
	}
	if at.Before(r.since) {
		if err := r.write(line{Since: at.Add(-slack)}); err != nil {
			return err
		}
		r.since = at.Add(-slack)
	}
	switch {
	case r.all || r.tenants[tenant]:
		return nil
	case len(r.tenants) >= maxTenants:
		if err := r.write(line{All: true}); err != nil {
			return err
		}
		r.all, r.tenants = true, nil
		return nil
	}
	if err := r.write(line{Tenant: &tenant}); err != nil {
		return err
	}
	r.tenants[tenant] = true
	return nil
}

// begin makes the file under another name, locks it and names it: under its own
// name it is never seen without the lock.
func (r *openSet) begin(at time.Time) error {
	if _, err := statedir.MakePrivate(r.dir); err != nil {
		return err
	}
	for range tries {
		f, err := r.make(at.Add(-slack))
		if err != nil {
			return err
		}
		if f != nil {
			r.f, r.since, r.tenants = f, at.Add(-slack), map[string]bool{}
			return nil
		}
	}
	return fmt.Errorf("the file in %s is taken away again and again", r.dir)
}

// make returns no file when a concurrent sweep removed the new one.
func (r *openSet) make(since time.Time) (*os.File, error) {
	made := filepath.Join(r.dir, madePrefix+r.id)
	f, err := os.OpenFile(made, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	r.f, r.dirty = f, false
	if err = tryLock(f, unix.LOCK_EX); err == nil {
		if err = r.write(line{Since: since}); err == nil {
			err = os.Rename(made, filepath.Join(r.dir, r.id))
		}
		if err == nil {
			if current, lerr := leadsTo(filepath.Join(r.dir, r.id), f); lerr == nil && current {
				return f, r.syncDir()
			}
		}
	}
	r.f = nil
	if err == nil || errors.Is(err, errHeld) || errors.Is(err, fs.ErrNotExist) {
		return nil, f.Close()
	}
	return nil, errors.Join(err, os.Remove(made), f.Close())
}

// write appends a line. It first terminates an incomplete line that a full disk
// has left; an unreadable line means every tenant.
func (r *openSet) write(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if r.dirty {
		data = append([]byte{'\n'}, data...)
	}
	r.dirty = true
	if _, err := r.f.Write(data); err != nil {
		return err
	}
	r.dirty = false
	if r.sync {
		return r.f.Sync()
	}
	return nil
}

func (r *openSet) syncDir() error {
	if !r.sync {
		return nil
	}
	d, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// end removes and closes the file of a writer that has no open operations.
func (r *openSet) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.f == nil {
		return nil
	}
	path := filepath.Join(r.dir, r.id)
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, letGo(r.f))
	r.f = nil
	return statedir.Unavailable("close the record of operations", path, err)
}

// A claim is the content of a writer file: where to look for the operations
// that its writer has begun.
type claim struct {
	since   time.Time // zero: no bound
	tenants []string
	all     bool
}

// readClaim reads a writer file. Whatever is not as it is written makes it mean
// more: every tenant, or all times.
func readClaim(in io.Reader) (claim, error) {
	var c claim
	seen := map[string]bool{}
	first := true
	lines := bufio.NewReader(io.LimitReader(in, maxFileSize))
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return c, err
		}
		if errors.Is(err, io.EOF) { // a torn line was followed by no begin
			if first || len(text) > 0 && text[0] != '{' { // a loss of power
				c.since, c.all = time.Time{}, true
			}
			return c, nil
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			continue
		}
		var l line
		if json.Unmarshal(text, &l) != nil || first && l.Since.IsZero() || len(seen) > maxTenants {
			c.all, c.since = true, time.Time{}
			return c, nil
		}
		if !l.Since.IsZero() && (first || l.Since.Before(c.since)) {
			c.since = l.Since
		}
		if l.Tenant != nil && !seen[*l.Tenant] {
			seen[*l.Tenant] = true
			c.tenants = append(c.tenants, *l.Tenant)
		}
		c.all = c.all || l.All
		first = false
	}
}

// isID reports whether s names a writer or an operation: 32 hex digits.
func isID(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }
