package budget

import (
	"errors"
	"io"

	"github.com/bulkhead-dev/sandbox"
)

// Reader counts what is read from r as kind k, [budget.BytesIn] or
// [budget.BytesOut]. It delivers exactly the bytes that the budget has; at the
// first byte more, Read fails with the error that says so, and the operation's
// context ends. Like r it is for one goroutine.
func (m *Meter) Reader(k Kind, r io.Reader) io.Reader { return &reader{m: m, kind: k, r: r} }

// Writer counts what is written to w as kind k. It writes exactly the bytes
// that the budget has; at the first byte more, Write fails with the error that
// says so, and the operation's context ends. Like w it is for one goroutine.
func (m *Meter) Writer(k Kind, w io.Writer) io.Writer { return &writer{m: m, kind: k, w: w} }

type reader struct {
	m    *Meter
	kind Kind
	r    io.Reader
	err  error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	n, err := r.m.claim(r.kind, len(p))
	if err != nil {
		return 0, r.over(err)
	}
	got, err := r.r.Read(p[:n])
	if got < 0 || got > n {
		got, err = 0, errors.New("a reader returned an impossible count")
	}
	r.m.unclaim(r.kind, n-got)
	return got, err
}

// over looks whether there is another byte, now that none may be used: the end
// of what is read is no excess.
func (r *reader) over(err error) error {
	if sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded {
		var one [1]byte
		switch n, end := r.r.Read(one[:]); {
		case n == 0 && end == nil:
			return nil
		case n == 0:
			return end
		}
	}
	r.err = err
	r.m.stop(err)
	return err
}

type writer struct {
	m    *Meter
	kind Kind
	w    io.Writer
	err  error
}

func (w *writer) Write(p []byte) (written int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	for written < len(p) {
		n, err := w.m.claim(w.kind, len(p)-written)
		if err != nil {
			w.err = err
			w.m.stop(err)
			return written, err
		}
		got, err := w.w.Write(p[written : written+n])
		if got < 0 || got > n || got < n && err == nil {
			got, err = max(0, min(got, n)), io.ErrShortWrite
		}
		w.m.unclaim(w.kind, n-got)
		written += got
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// claim counts up to most bytes as used, at least one, before they are moved,
// so that streams which share a budget do not use the same ones.
func (m *Meter) claim(k Kind, most int) (int, error) {
	for {
		m.mu.Lock()
		used := m.used[k]
		if n := min(int64(most), m.held[k]-used); n > 0 {
			m.used[k] += n
			m.mu.Unlock()
			return int(n), nil
		}
		m.mu.Unlock()
		want := max(int64(most), ahead(k, used))
		if _, err := m.more(m.ctx, One(k, 1), One(k, want)); err != nil {
			return 0, err
		}
	}
}

// unclaim takes back what was claimed and not moved.
func (m *Meter) unclaim(k Kind, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used[k] -= int64(n)
}
