package resource

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A slow keeper starts sandboxes when the test lets it.
type sandboxesSlow struct {
	sandboxesKeeper
	up chan struct{}

	mu    sync.Mutex
	asked int             // Ready
	by    []string        // for whom
	none  string          // for whom it fails
	kept  []time.Duration // Extend
}

type tokenKey struct{}

func (k *sandboxesSlow) Ready(ctx context.Context, _ manager.Request) (manager.Prepared, error) {
	by, _ := ctx.Value(tokenKey{}).(string)
	k.mu.Lock()
	k.asked++
	k.by = append(k.by, by)
	none := k.none != "" && by == k.none
	k.mu.Unlock()
	select {
	case <-k.up:
		if none {
			return manager.Prepared{}, &sandbox.Error{Code: sandbox.CodeBudgetExceeded}
		}
		return manager.Prepared{Place: manager.Sandboxed}, nil
	case <-ctx.Done():
		return manager.Prepared{}, ctx.Err()
	}
}

func (k *sandboxesSlow) Extend(_ context.Context, _, _, _ string, until time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, time.Until(until))
	return nil
}

func (k *sandboxesSlow) reported() (asked int, kept []time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked, slices.Clone(k.kept)
}

func newSlow() (*sandboxesSlow, *sandboxesResource) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	k := &sandboxesSlow{up: make(chan struct{})}
	return k, NewSandboxes(Options{Manager: k, Log: log})
}

// post requests a sandbox without waiting for it.
func post(t *testing.T, s *sandboxesResource, tenant, name string, ttl int64) error {
	t.Helper()
	return postBy(t, s, "token", tenant, name, ttl)
}

func postBy(t *testing.T, s *sandboxesResource, token, tenant, name string, ttl int64) error {
	t.Helper()
	by := asker{ctx: context.WithValue(t.Context(), tokenKey{}, token), id: token, who: config.Who{Tenant: tenant, Session: name}}
	status, made, err := s.later(by, name, api.CreateSandbox{TTLSeconds: ttl})
	if err == nil && (status != http.StatusAccepted || made.Name != name || made.Tenant != tenant) {
		t.Errorf("%d %+v", status, made)
	}
	return err
}

// TestLaterOnce holds that a sandbox is started once for all requests that do
// not wait, and that the last of them sets how long it is kept.
func TestLaterOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := newSlow()
		defer s.Close()
		for i := range 1000 {
			if err := post(t, s, "acme", "one", int64(i%2)*int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if asked, _ := k.reported(); asked != 1 {
			t.Errorf("brought up %d times", asked)
		}
		close(k.up)
		synctest.Wait()
		if _, kept := k.reported(); !slices.Equal(kept, []time.Duration{999 * time.Second}) {
			t.Errorf("kept for %v", kept)
		}
		if err := post(t, s, "acme", "one", 0); err != nil { // it may have gone since
			t.Error(err)
		}
		synctest.Wait()
		if asked, kept := k.reported(); asked != 2 || len(kept) != 1 || len(s.coming) != 0 {
			t.Errorf("brought up %d times and kept for %v; left are %v", asked, kept, s.coming)
		}
	})
}

// TestLaterForTheOthers holds that a caller that joins the start of a sandbox
// does not depend on the rights of the first caller, and that no caller's start
// is tried twice.
func TestLaterForTheOthers(t *testing.T) {
	for _, tt := range []struct {
		none string
		by   []string
		kept []time.Duration
	}{
		{"first", []string{"first", "third"}, []time.Duration{3 * time.Second}},
		{"", []string{"first"}, []time.Duration{3 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			k, s := newSlow()
			defer s.Close()
			k.none = tt.none
			for i, token := range []string{"first", "second", "third", "first"} {
				if err := postBy(t, s, token, "acme", "one", int64((i+1)%4)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			close(k.up)
			synctest.Wait()
			if _, kept := k.reported(); !slices.Equal(k.by, tt.by) || !slices.Equal(kept, tt.kept) || len(s.coming) != 0 {
				t.Errorf("without %q it came for %v and was kept for %v; left are %v", tt.none, k.by, kept, s.coming)
			}
		})
	}
}

// TestLaterIsBounded holds that one tenant can have only so many sandboxes
// starting, that this takes nothing from others, and that there is room again
// when they run, have failed, or the server shuts down.
func TestLaterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := newSlow()
		fill := func() {
			t.Helper()
			for i := range maxComing {
				if err := post(t, s, "acme", fmt.Sprint("s", i), 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := post(t, s, "acme", "more", 0); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
				t.Errorf("one more: %v", err)
			}
			if err := post(t, s, "acme", "s0", 0); err != nil {
				t.Errorf("one that is coming: %v", err)
			}
			if err := post(t, s, "evil", "more", 0); err != nil {
				t.Errorf("another tenant: %v", err)
			}
			synctest.Wait()
		}
		fill()
		time.Sleep(startWithin + time.Second) // of the bubble: they have failed
		synctest.Wait()
		fill()
		if asked, _ := k.reported(); asked != 2*(maxComing+1) {
			t.Errorf("brought up %d times", asked)
		}
		s.Close()
		if err := post(t, s, "acme", "s0", 0); sandbox.CodeOf(err) != sandbox.CodeUnavailable || len(s.coming) != 0 {
			t.Errorf("closed: %v, left are %v", err, s.coming)
		}
	})
}

// TestFailuresDoNotFillTheLog holds that the log has one line a minute about the
// sandboxes of one tenant that do not start, independently of other tenants.
func TestFailuresDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, heard := test.NewNullLogger()
		s := NewSandboxes(Options{Log: log})
		for range 100 {
			s.failed("t", "a", context.Canceled)
		}
		s.failed("u", "b", context.Canceled)
		if n := len(heard.AllEntries()); n != 2 {
			t.Errorf("%d lines of two tenants", n)
		}
		time.Sleep(reportEvery)
		s.failed("t", "a", context.Canceled)
		if e := heard.LastEntry(); len(heard.AllEntries()) != 3 || e.Data["unlogged"] != 99 {
			t.Errorf("after a minute: %d lines, %+v", len(heard.AllEntries()), e.Data)
		}
		for i := range 2 * maxReported {
			s.failed(fmt.Sprint(i), "a", context.Canceled)
		}
		if len(s.reported) > maxReported {
			t.Errorf("%d tenants are remembered", len(s.reported))
		}
	})
}
