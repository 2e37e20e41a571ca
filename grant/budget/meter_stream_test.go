package budget_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// TestReaderIsExact reads everything up to the bound, in pieces of all sizes,
// and fails at the first byte more.
func TestReaderIsExact(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, tt := range []struct {
		bound, size int64
	}{{0, 0}, {0, 1}, {1, 1}, {1, 2}, {9, 9}, {9, 10}, {5000, 4999}, {5000, 5000}, {5000, 5001}, {3 << 20, 3 << 20}, {3 << 20, 4 << 20}} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "half": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			data := make([]byte, tt.size)
			r.Read(data)
			p := newPurse(bound(budget.BytesIn, tt.bound))
			m, ctx := start(t, p)
			got, err := io.ReadAll(m.Reader(budget.BytesIn, wrap(bytes.NewReader(data))))
			if want := data[:min(tt.bound, tt.size)]; !bytes.Equal(got, want) {
				t.Fatalf("%s: %d of %d with %d: got %d bytes", name, len(want), tt.size, tt.bound, len(got))
			}
			if tt.size > tt.bound {
				wantCode(t, err, sandbox.CodeBudgetExceeded, "budget.bytesIn")
				wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget.bytesIn")
			} else if err != nil || ctx.Err() != nil {
				t.Fatalf("%s: %d with %d: %v, %v", name, tt.size, tt.bound, err, ctx.Err())
			}
			end(t, m, p, budget.BytesIn, min(tt.bound, tt.size))
		}
	}
}

func TestWriterIsExact(t *testing.T) {
	for _, tt := range []struct {
		bound int64
		sizes []int
		want  int64
	}{
		{0, []int{0}, 0}, {0, []int{1}, 0}, {10, []int{4, 6}, 10}, {10, []int{4, 7}, 10},
		{10, []int{11}, 10}, {1 << 20, []int{1 << 19, 1 << 19}, 1 << 20}, {1 << 20, []int{1 << 21}, 1 << 20},
	} {
		p := newPurse(bound(budget.BytesOut, tt.bound))
		m, ctx := start(t, p)
		var out bytes.Buffer
		w := m.Writer(budget.BytesOut, &out)
		total := int64(0)
		for _, n := range tt.sizes {
			before := out.Len()
			got, err := w.Write(make([]byte, n))
			if got != out.Len()-before {
				t.Fatalf("said %d, wrote %d", got, out.Len()-before)
			}
			if total += int64(n); total > tt.bound {
				wantCode(t, err, sandbox.CodeBudgetExceeded, "budget.bytesOut")
				wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget.bytesOut")
				if n, again := w.Write([]byte("x")); n != 0 || !errors.Is(again, err) {
					t.Errorf("after the end: %d, %v", n, again)
				}
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if int64(out.Len()) != tt.want {
			t.Errorf("%v with %d: wrote %d", tt.sizes, tt.bound, out.Len())
		}
		end(t, m, p, budget.BytesOut, tt.want)
	}
}

// TestStreamsShareABudget lets many streams of one operation use one budget up
// to the last byte.
func TestStreamsShareABudget(t *testing.T) {
	const room = 300000
	p := newPurse(bound(budget.BytesIn, room))
	m, _ := start(t, p)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total, failed := int64(0), 0
	for range 16 {
		wg.Go(func() {
			n, err := io.Copy(io.Discard, struct{ io.Reader }{m.Reader(budget.BytesIn, iotest.HalfReader(strings.NewReader(strings.Repeat("x", 20000))))})
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				failed++
			}
		})
	}
	wg.Wait()
	if total > room || failed == 0 {
		t.Errorf("%d bytes with a bound of %d, %d streams failed", total, room, failed)
	}
	end(t, m, p, budget.BytesIn, total)
}

// TestFewDraws checks that large streams do not ask the accounts for every read.
func TestFewDraws(t *testing.T) {
	p := newPurse(budget.NoBound())
	m, _ := start(t, p)
	if _, err := io.Copy(io.Discard, m.Reader(budget.BytesIn, io.LimitReader(zeros{}, 64<<20))); err != nil {
		t.Fatal(err)
	}
	end(t, m, p, budget.BytesIn, 64<<20) // and no more draws follow
	if p.draws > 100 {
		t.Errorf("%d draws for 64 MiB", p.draws)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestBrokenStreams checks that only what was moved counts, whatever the other
// side does.
func TestBrokenStreams(t *testing.T) {
	broken := errors.New("broken")
	p := newPurse(bound(budget.BytesIn, 100))
	m, ctx := start(t, p)
	if n, err := m.Reader(budget.BytesIn, iotest.ErrReader(broken)).Read(make([]byte, 50)); n != 0 || !errors.Is(err, broken) {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := m.Reader(budget.BytesIn, liar(70)).Read(make([]byte, 50)); n != 0 || err == nil {
		t.Errorf("a reader that says 70 of 50: %d, %v", n, err)
	}
	for lie, want := range map[liar]int64{3: 3, 70: 50, -5: 0} {
		if n, err := m.Writer(budget.BytesIn, lie).Write(make([]byte, 50)); int64(n) > want || err == nil {
			t.Errorf("a writer that says %d of 50: %d, %v", lie, n, err)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("the operation ended: %v", context.Cause(ctx))
	}
	if used := m.Used().BytesIn; used > 53 {
		t.Errorf("used %d", used)
	}
}

// liar says that it moved so many bytes.
type liar int

func (l liar) Read([]byte) (int, error)  { return int(l), nil }
func (l liar) Write([]byte) (int, error) { return int(l), nil }

// TestAccountsOutOfReach checks that nothing is moved that could not be charged.
func TestAccountsOutOfReach(t *testing.T) {
	p := newPurse(budget.NoBound())
	m, ctx := start(t, p)
	p.mu.Lock()
	p.fail = &sandbox.Error{Code: sandbox.CodeUnavailable, Field: "disk"}
	p.mu.Unlock()
	var out bytes.Buffer
	_, err := m.Writer(budget.BytesOut, &out).Write([]byte("x"))
	wantCode(t, err, sandbox.CodeUnavailable, "disk")
	wantCode(t, context.Cause(ctx), sandbox.CodeUnavailable, "disk")
	if out.Len() > 0 {
		t.Error("something was written")
	}
	if _, err := m.End(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("the settlement failed in silence: %v", err)
	}
}
