package resource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func openIdempotency(t *testing.T, dir string) *Answers {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func saying(n int) func() (idempotencyAnswer, error) {
	return func() (idempotencyAnswer, error) {
		return idempotencyAnswer{Status: 200 + n, Body: []byte(fmt.Sprint(n))}, nil
	}
}

func TestOneAnswerForAKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "answers")
	a := openIdempotency(t, dir)
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			got, _, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "k", []byte("x"), func() (idempotencyAnswer, error) {
				return saying(int(done.Add(1)))()
			})
			if err != nil || got.Status != 201 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if done.Load() != 1 {
		t.Errorf("it was done %d times", done.Load())
	}
	for _, tt := range []struct {
		name, tenant, key, content string
		want                       int
		code                       sandbox.Code
	}{
		{"again", "t", "k", "x", 201, ""}, {"another key", "t", "k2", "x", 207, ""}, {"another tenant", "u", "k", "x", 207, ""}, {"another request", "t", "k", "y", 0, sandbox.CodeValidation},
		{"no key", "t", "", "x", 0, sandbox.CodeValidation}, {"a key with blanks", "t", "a b", "x", 0, sandbox.CodeValidation},
	} {
		got, _, err := openIdempotency(t, dir).Do(t.Context(), idempotencyOwner{Tenant: tt.tenant}, tt.key, []byte(tt.content), saying(7))
		if got.Status != tt.want || sandbox.CodeOf(err) != tt.code {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	a := openIdempotency(t, filepath.Join(t.TempDir(), "answers"))
	fail := errors.New("no")
	if _, _, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "k", nil, func() (idempotencyAnswer, error) { return idempotencyAnswer{}, fail }); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	if got, replayed, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "k", nil, saying(1)); got.Status != 201 || replayed || err != nil {
		t.Errorf("%+v, %v, %v", got, replayed, err)
	}
}

func TestAnswersEnd(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "answers")
	a := openIdempotency(t, dir)
	now := time.Now()
	a.now = func() time.Time { return now }
	for i := range 5 {
		if _, _, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, fmt.Sprint(i), nil, saying(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := a.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	now = now.Add(idempotencyKept)
	if got, replayed, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "1", []byte("else"), saying(9)); got.Status != 209 || replayed || err != nil {
		t.Errorf("after a day: %+v, %v, %v", got, replayed, err)
	}
	if n, err := a.Sweep(t.Context()); n != 4 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestDamagedAnswersAreNone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "answers")
	a := openIdempotency(t, dir)
	if _, _, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "k", nil, saying(1)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for _, text := range []string{"", "{", `{"status":200}`, "null"} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, replayed, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "k", nil, saying(2)); got.Status != 202 || replayed || err != nil {
			t.Errorf("%q: %+v, %v, %v", text, got, replayed, err)
		}
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	a := openIdempotency(t, filepath.Join(t.TempDir(), "answers"))
	inside, let, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if _, _, err := a.Do(t.Context(), idempotencyOwner{Tenant: "t"}, "k", nil, func() (idempotencyAnswer, error) {
			close(inside)
			<-let
			return saying(1)()
		}); err != nil {
			t.Error(err)
		}
	}()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Do(ctx, idempotencyOwner{Tenant: "t"}, "k", nil, saying(2)); sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("got %v", err)
	}
	close(let)
	<-done // it writes into the folder, which goes with the test
}

// TestKeysOfASessionAreItsOwn holds that one session neither finds nor displaces
// the answers of another, and that of too many keys the oldest are removed.
func TestKeysOfASessionAreItsOwn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "answers")
	a := openIdempotency(t, dir)
	do := func(of idempotencyOwner, key string, n int) (idempotencyAnswer, bool) {
		t.Helper()
		got, replayed, err := a.Do(t.Context(), of, key, []byte("x"), saying(n))
		if err != nil {
			t.Fatal(err)
		}
		return got, replayed
	}
	greedy := idempotencyOwner{Tenant: "t", Agent: "main", Session: "s"}
	others := []idempotencyOwner{
		{Tenant: "t"}, {Tenant: "t", Agent: "main"}, {Tenant: "t", Agent: "b", Session: "s"}, {Tenant: "t", Agent: "main", Session: "s2"}, {Tenant: "u", Agent: "main", Session: "s"},
	}
	for i, of := range others {
		if _, replayed := do(of, "k", i); replayed {
			t.Errorf("%+v finds the answer of another", of)
		}
	}
	for i := range maxSession + 20 {
		do(greedy, fmt.Sprint("k", i), 1)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if most := maxSession + len(others); err != nil || len(files) > most || len(files) < most-maxSession/5 {
		t.Errorf("there are %d answers of at most %d, %v", len(files), most, err)
	}
	if _, replayed := do(greedy, fmt.Sprint("k", maxSession+19), 2); !replayed {
		t.Error("the newest key is forgotten")
	}
	if _, replayed := do(greedy, "k0", 2); replayed {
		t.Error("the oldest key is kept beyond the bound")
	}
	for i, of := range others {
		if got, replayed := do(of, "k", 99); !replayed || got.Status != 200+i {
			t.Errorf("%+v has lost its answer: %+v", of, got)
		}
	}
	a.now = func() time.Time { return time.Now().Add(2 * idempotencyKept) }
	if _, err := a.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("empty folders are left: %v, %v", left, err)
	}
}
