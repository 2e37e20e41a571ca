package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// abortedDetail is the detail of the end of an operation whose program died
// without recording one.
const abortedDetail = "the program that ran it has ended without telling how"

// Recover writes the missing ends of operations that programs began before they
// died, as [proof.Aborted], and returns the number of ends. It never touches
// the operations of a living program. Any number of programs may recover at
// once; one of them handles each dead writer, while it holds the lock of that
// writer's file, and when it is killed the next one continues. Without dead
// writers the cost is that of reading a folder.
func (w *Recorder) Recover(ctx context.Context) (aborted int, err error) {
	if len(w.keepers) == 0 {
		return 0, nil
	}
	files, err := os.ReadDir(w.o.Writers)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, statedir.Unavailable("recover evidence", w.o.Writers, err)
	}
	var errs []error
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			errs = append(errs, statedir.Unavailable("recover evidence", w.o.Writers, err))
			break
		}
		made := strings.HasPrefix(f.Name(), madePrefix)
		if f.Name() == w.id || !made && !isID(f.Name()) {
			continue
		}
		n, err := w.recoverFile(ctx, f.Name(), made)
		aborted += n
		if err != nil {
			errs = append(errs, statedir.Unavailable("recover evidence", filepath.Join(w.o.Writers, f.Name()), err))
		}
	}
	w.aborted.Add(int64(aborted))
	return aborted, errors.Join(errs...)
}

// recoverFile recovers one writer file, unless a process holds its lock.
func (w *Recorder) recoverFile(ctx context.Context, name string, made bool) (aborted int, err error) {
	path := filepath.Join(w.o.Writers, name)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // another process was faster
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, letGo(f)) }()
	if err := tryLock(f, unix.LOCK_EX); err != nil {
		if errors.Is(err, errHeld) {
			return 0, nil // its writer is alive, or another process is recovering it
		}
		return 0, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return 0, err
	}
	if current, err := leadsTo(path, f); err != nil || !current {
		return 0, err
	}
	if !made {
		c, err := readClaim(f)
		if err != nil {
			return 0, err
		}
		for _, k := range w.keepers {
			n, err := w.abort(ctx, k, name, c)
			if aborted += n; err != nil {
				return aborted, err
			}
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return aborted, err
	}
	return aborted, nil
}

// abort writes the ends that are missing of a dead writer in one Keeper.
func (w *Recorder) abort(ctx context.Context, k Keeper, writer string, c claim) (aborted int, err error) {
	filters := []evidence.Filter{{AllTenants: true}}
	if !c.all {
		filters = filters[:0]
		for _, t := range c.tenants {
			filters = append(filters, evidence.Filter{Tenant: t})
		}
	}
	for _, f := range filters {
		open, err := unended(k.Query(ctx, f), writer, c.since)
		if err != nil {
			return aborted, err
		}
		for len(open) > 0 {
			some := open[:min(len(open), maxBatch)]
			open = open[len(some):]
			ends, err := w.abortions(some)
			if err == nil {
				err = k.Write(ctx, ends...)
			}
			if err != nil {
				return aborted, err
			}
			aborted += len(ends)
			w.announce(ends)
		}
	}
	return aborted, nil
}

// abortions returns the ends, marked as aborted, of operations whose programs
// died without recording one.
func (w *Recorder) abortions(begins []evidence.Record) ([]evidence.Record, error) {
	now := w.o.Now().UTC()
	var ends []evidence.Record
	for _, b := range begins {
		r, err := endRecord(b, evidence.End{
			ID: b.Command, Time: now, Status: evidence.Aborted, Code: sandbox.CodeExecution, Detail: abortedDetail,
		})
		if err != nil {
			return nil, err
		}
		ends = append(ends, r)
	}
	return ends, nil
}

// announce sends the ends that were found missing to the sinks that keep
// nothing.
func (w *Recorder) announce(ends []evidence.Record) {
	for _, m := range w.rings {
		_ = m.Write(context.Background(), ends...) // which does not fail
	}
	for _, o := range w.sinks {
		if !o.keeps {
			o.offer(ends)
		}
	}
}

// pastSince is the number of consecutive records older than a writer after
// which the search for its records stops: records that waited for a sink arrive
// late.
const pastSince = 4096

// unended returns the begins of a writer, at since or later, that have no end,
// the oldest first. The records come newest first. A record that a failing disk
// has let through is written again, so that both of an operation may be there
// more than once. Memory grows with the operations of this writer.
func unended(all iter.Seq2[evidence.Record, error], writer string, since time.Time) ([]evidence.Record, error) {
	var open []evidence.Record
	reported := map[string]bool{} // ids of ends, and of begins that were found
	old := 0
	for r, err := range all {
		var damage *journal.Damage
		switch {
		case errors.As(err, &damage):
			continue // an unreadable end names no operation
		case err != nil:
			return nil, fmt.Errorf("cannot read what was begun: %w", err)
		case !r.Time.Before(since):
			old = 0
		default:
			if old++; old >= pastSince {
				slices.Reverse(open)
				return open, nil
			}
		}
		if r.Omitted > 0 {
			continue
		}
		var is struct{ ID, Writer string } // of a begin or an end
		if json.Unmarshal(r.Data, &is) != nil || !isID(is.ID) {
			continue
		}
		switch {
		case r.Type == evidence.TypeEnd:
			reported[is.ID] = true
		case r.Type == evidence.TypeBegin && is.Writer != writer:
			delete(reported, is.ID) // its end was not ours
		case r.Type == evidence.TypeBegin && !reported[is.ID]:
			reported[is.ID] = true
			r.Command, r.Data = is.ID, nil
			open = append(open, r)
		}
	}
	slices.Reverse(open)
	return open, nil
}
