package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFamily checks that a revocation applies to all derived grants, for
// queries and for waits, and to no other grant.
func TestFamily(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		soon := time.Now().Add(time.Hour)
		must(t, s.Derived("child", "parent", soon))
		must(t, s.Derived("child", "parent", soon)) // again is no harm
		must(t, s.Derived("grandchild", "child", soon))
		must(t, s.Derived("sibling", "parent", soon))
		all := []string{"parent", "child", "grandchild", "sibling", "other"}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		signals := map[string]<-chan struct{}{}
		for _, id := range all {
			signals[id] = s.Watch(ctx, id)
			wantRevoked(t, s, id, false)
		}
		for _, step := range []struct {
			revoke string
			gone   string
		}{{"sibling", "sibling"}, {"child", "sibling child grandchild"}, {"parent", "sibling child grandchild parent"}} {
			must(t, s.Revoke(step.revoke, soon))
			must(t, s.Revoke(step.revoke, soon))
			for _, id := range all {
				gone := strings.Contains(" "+step.gone+" ", " "+id+" ")
				wantRevoked(t, s, id, gone)
				if gone {
					wantSignal(t, id, signals[id])
					wantSignal(t, id+" afterwards", s.Watch(ctx, id))
				} else {
					wantNoSignal(t, id, signals[id])
				}
			}
		}
		must(t, s.Derived("late", "child", soon))
		wantRevoked(t, s, "late", true)
	})
}

func TestStoresRefuse(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		soon := time.Now().Add(time.Hour)
		for _, id := range []string{"", strings.Repeat("x", MaxID+1), "\xff"} {
			wantCode(t, s.Revoke(id, soon), sandbox.CodeValidation, "1 to 256")
			wantCode(t, s.Derived(id, "p", soon), sandbox.CodeValidation, "1 to 256")
			wantCode(t, s.Derived("p", id, soon), sandbox.CodeValidation, "1 to 256")
		}
		must(t, s.Derived("c", "p", soon))
		wantCode(t, s.Derived("c", "q", soon), sandbox.CodeValidation, "derived from another")
		wantCode(t, s.Derived("c", "c", soon), sandbox.CodeValidation, "from itself")
		must(t, s.Revoke(strings.Repeat("\x01", MaxID), soon))
		wantRevoked(t, s, strings.Repeat("\x01", MaxID), true)
	})
}

// TestEndlessFamilies checks that grants whose origin cannot be found out count
// as revoked.
func TestEndlessFamilies(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		soon := time.Now().Add(time.Hour)
		must(t, s.Derived("a", "b", soon))
		must(t, s.Derived("b", "a", soon))
		for i := range MaxDepth + 1 {
			must(t, s.Derived(fmt.Sprint("d", i+1), fmt.Sprint("d", i), soon))
		}
		for id, bad := range map[string]bool{"a": true, "b": true, "d16": false, "d17": true} {
			got, err := s.Revoked(id)
			if got != bad || (err != nil) != bad {
				t.Errorf("%s: %v, %v", id, got, err)
			}
			if bad {
				wantSignal(t, id, s.Watch(context.Background(), id))
				ctx, cancel := Context(context.Background(), s, forever(id))
				wantEnd(t, ctx, sandbox.CodeUnavailable, "is not known")
				cancel()
			}
		}
	})
}

// TestWatchEndsWithItsContext checks that no goroutine stays and no revocation
// is reported.
func TestWatchEndsWithItsContext(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		ctx, cancel := context.WithCancel(context.Background())
		c := s.Watch(ctx, "g")
		cancel()
		h := hubOf(s)
		testenv.Until(t, "it waits no more", func() bool { return len(h.waiting()) == 0 })
		must(t, s.Revoke("g", time.Time{}))
		wantNoSignal(t, "g", c)
	})
}

func hubOf(s store) *hub {
	switch s := s.(type) {
	case *Memory:
		return &s.hub
	case *Folder:
		return &s.hub
	}
	return nil
}

func TestCheck(t *testing.T) {
	now := time.Now()
	both(t, func(t *testing.T, s store) {
		must(t, s.Revoke("gone", time.Time{}))
		for _, tt := range []struct {
			name string
			g    grant.Grant
			code sandbox.Code
			text string
		}{
			{"good", grant.Grant{ID: "g", Expires: now.Add(1)}, "", ""},
			{"good and derived", grant.Grant{ID: "g", Parent: "p", Expires: now.Add(1)}, "", ""},
			{"expired", grant.Grant{ID: "g", Expires: now}, sandbox.CodePermissionDeny, "expired"},
			{"no expiry", grant.Grant{ID: "g"}, sandbox.CodePermissionDeny, "expired"},
			{"revoked", grant.Grant{ID: "gone", Expires: now.Add(1)}, sandbox.CodePermissionDeny, "revoked"},
			{"parent revoked", grant.Grant{ID: "g", Parent: "gone", Expires: now.Add(1)}, sandbox.CodePermissionDeny, "revoked"},
			{"no id", grant.Grant{Expires: now.Add(1)}, sandbox.CodeValidation, "without an id"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				err := Check(s, tt.g, now)
				if tt.code == "" {
					must(t, err)
					return
				}
				wantCode(t, err, tt.code, tt.text)
				ctx, cancel := Context(context.Background(), s, tt.g)
				defer cancel()
				if ctx.Err() == nil {
					t.Error("the context has not ended")
				}
			})
		}
	})
}

func TestContextEndsWithARevocation(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		g := forever("g")
		g.Parent = "p"
		for _, id := range []string{"p", "g"} {
			h := g
			if id == "g" {
				h.Parent = ""
			}
			ctx, cancel := Context(context.Background(), s, h)
			defer cancel()
			if ctx.Err() != nil {
				t.Fatalf("ended at once: %v", context.Cause(ctx))
			}
			must(t, s.Revoke(id, g.Expires))
			wantEnd(t, ctx, sandbox.CodePermissionDeny, "revoked")
		}
		ctx, cancel := Context(context.Background(), s, forever("other"))
		cancel()
		wantSignal(t, "cancel", ctx.Done())
		if context.Cause(ctx) != context.Canceled {
			t.Errorf("cause %v", context.Cause(ctx))
		}
	})
}

func TestContextEndsWithTheGrant(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			ctx, cancel := Context(context.Background(), &Memory{}, grant.Grant{ID: "g", Expires: begin.Add(d).UTC().Round(0)})
			defer cancel()
			<-ctx.Done()
			wantCode(t, context.Cause(ctx), sandbox.CodePermissionDeny, "expired")
			if over := time.Since(begin) - d; over < 0 || over > Delay {
				t.Errorf("%v ended %v late", d, over)
			}
		})
	}
}

// TestMemoryForgets checks that memory stays bounded while grants come and go.
func TestMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		begin := time.Now()
		m.passed.Source.Up = func() (string, time.Duration, error) { return "bubble", time.Since(begin), nil }
		must(t, m.Revoke("for ever", time.Time{}))
		for n := range 20000 {
			must(t, m.Revoke(fmt.Sprint(n), time.Now().Add(time.Second)))
			must(t, m.Derived(fmt.Sprint("child ", n), fmt.Sprint(n), time.Now().Add(time.Second)))
			time.Sleep(time.Second)
		}
		if n := len(m.revoked) + len(m.derived); n > 4000 {
			t.Errorf("%d are remembered", n)
		}
		wantRevoked(t, &m, "for ever", true)
		wantRevoked(t, &m, "child 19999", true)
	})
}

// TestManyWatchers lets 64 grants be watched and revoked at once.
func TestManyWatchers(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var wg sync.WaitGroup
		for n := range 64 {
			id := fmt.Sprint("g", n)
			held, stop := Context(ctx, s, forever(id))
			wg.Go(func() {
				defer stop()
				wantEnd(t, held, sandbox.CodePermissionDeny, "revoked")
			})
			wg.Go(func() {
				if err := s.Revoke(id, time.Time{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// TestTenantsHaveIDsOfTheirOwn checks that a tenant cannot revoke the grant of
// another, whatever id it names.
func TestTenantsHaveIDsOfTheirOwn(t *testing.T) {
	forms := map[string][2]string{
		"nobody's": {"", "x"}, "acme's": {"acme", "x"}, "other's": {"other", "x"},
		"forged for acme": {"", "\x00acme\x00x"}, "forged for nobody": {"", "\x00\x00x"}, "longer": {"acm", "e\x00x"},
	}
	for _, mine := range forms {
		m := &Memory{}
		must(t, m.Revoke(Name(mine[0], mine[1]), time.Now().Add(time.Hour)))
		for _, other := range forms {
			wantRevoked(t, m, Name(other[0], other[1]), other == mine)
		}
	}
	for _, bad := range []string{Name("acme", ""), Name("acme", strings.Repeat("x", MaxID+1)), Name(strings.Repeat("t", 65), "x")} {
		if (&Memory{}).Revoke(bad, time.Now().Add(time.Hour)) == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}
