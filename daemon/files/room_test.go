package files_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/daemon/files"
	"github.com/bulkhead-dev/sandbox/daemon/route"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A slow lender counts who has files lent at a time, by sandbox, and holds them
// for a while.
type slow struct {
	*manager.Manager

	mu      sync.Mutex
	now     map[string]int
	highest map[string]int
}

func (s *slow) Files(ctx context.Context, req manager.Request, fn func(manager.Share) error) error {
	key := req.Who.Session
	s.mu.Lock()
	s.now[key]++
	s.highest[key] = max(s.highest[key], s.now[key])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now[key]--
		s.mu.Unlock()
	}()
	time.Sleep(50 * time.Millisecond)
	return s.Manager.Files(ctx, req, fn)
}

// TestRoom holds that what takes memory by what lies in a sandbox does not run
// as often at a time as it is asked for: whoever fills a sandbox with files
// could take all memory of the daemon otherwise.
func TestRoom(t *testing.T) {
	var s *slow
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []route.Resource {
		s = &slow{Manager: r.Manager, now: map[string]int{}, highest: map[string]int{}}
		return []route.Resource{files.NewResource(s, files.Limits{})}
	}})
	base := "/v1/sandboxes/" + r.Ready("acme", "s1")
	r.Run("acme", "s1", "mkdir d; echo x > d/f")
	for _, tt := range []struct {
		name, method, path, body string
		most                     int
		held                     bool
	}{
		{"list", http.MethodGet, "/files/workspace/d?list", "", 2, true},
		{"glob", http.MethodPost, "/files:glob", `{"pattern":"**"}`, 2, true},
		{"pack", http.MethodGet, "/archive?path=d", "", 4, true},
		{"control: read", http.MethodGet, "/files/workspace/d/f", "", 4, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.mu.Lock()
			clear(s.highest)
			s.mu.Unlock()
			var all sync.WaitGroup
			for range 24 {
				all.Go(func() { r.Want(200, "acme", tt.method, base+tt.path, tt.body) })
			}
			all.Wait()
			if got := s.highest["s1"]; (got > tt.most) == tt.held {
				t.Errorf("%d at a time", got)
			}
		})
	}
}
