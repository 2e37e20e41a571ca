package resource_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A countingManager counts requests, and blocks each request that uses files until the
// test releases one.
type countingManager struct {
	*manager.Manager
	letGo chan struct{}

	mu                  sync.Mutex
	come, held, highest int
}

// Usable is called for every request, before it waits for its turn.
func (l *countingManager) Usable(who config.Who, flags *config.SandboxSettings) (manager.Usable, error) {
	l.mu.Lock()
	l.come++
	l.mu.Unlock()
	return l.Manager.Usable(who, flags)
}

func (l *countingManager) Files(ctx context.Context, req manager.Request, fn func(manager.Share) error) error {
	l.mu.Lock()
	l.held++
	l.highest = max(l.highest, l.held)
	l.mu.Unlock()
	<-l.letGo
	defer func() {
		l.mu.Lock()
		l.held--
		l.mu.Unlock()
	}()
	return l.Manager.Files(ctx, req, fn)
}

func (l *countingManager) count() (come, held, highest int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.come, l.held, l.highest
}

// TestRoom holds that requests that take memory for the content of a sandbox do
// not all run at the same time: otherwise a caller that fills a sandbox with
// files could use up the memory of the daemon.
func TestRoom(t *testing.T) {
	t.Parallel()
	var l *countingManager
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		l = &countingManager{Manager: r.Manager}
		return []resource.Resource{resource.NewFilesResource(l, resource.Limits{})}
	}})
	base := "/v1/sandboxes/" + r.Ready("acme", "s1")
	r.Run("acme", "s1", "mkdir d; echo x > d/f")
	const all = 24
	for _, tt := range []struct {
		name, method, path, body string
		most                     int
	}{
		{"list", http.MethodGet, "/files/workspace/d?list", "", 2},
		{"glob", http.MethodPost, "/files:glob", `{"pattern":"**"}`, 2},
		{"pack", http.MethodGet, "/archive?path=d", "", 4},
		{"control: read", http.MethodGet, "/files/workspace/d/f", "", all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l.mu.Lock()
			l.letGo, l.come, l.highest = make(chan struct{}), 0, 0
			l.mu.Unlock()
			var wg sync.WaitGroup
			defer wg.Wait()
			defer close(l.letGo)
			for range all {
				wg.Go(func() { r.Want(200, "acme", tt.method, base+tt.path, tt.body) })
			}
			for left := all; left > 0; left-- { // a waiting request proceeds when another one ends
				testenv.Success(t, func() error {
					if come, held, _ := l.count(); come < all || held < min(left, tt.most) {
						return fmt.Errorf("%d have come, %d are held, %d are left", come, held, left)
					}
					return nil
				})
				l.letGo <- struct{}{}
			}
			if _, _, highest := l.count(); highest != tt.most {
				t.Errorf("%d at a time, want %d", highest, tt.most)
			}
		})
	}
}

// TestRoomUntilItIsRead holds that a page of a folder counts until the client
// has read it, because it is in memory until then.
func TestRoomUntilItIsRead(t *testing.T) {
	t.Parallel()
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewFilesResource(r.Manager, resource.Limits{})}
	}})
	dir := "/v1/sandboxes/" + r.Ready("acme", "s1") + "/files/workspace/d"
	for i := range 400 { // a byte of these names is six as JSON: more than a socket takes
		r.Want(201, "acme", http.MethodPut, dir+"/"+strings.Repeat("%01", 200)+strconv.Itoa(i), "")
	}
	var unread []net.Conn
	for range 2 {
		c, err := r.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "GET %s?list HTTP/1.1\r\nHost: daemon\r\nAuthorization: Bearer %s\r\n\r\n", dir, r.Secret("acme")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		unread = append(unread, c)
	}
	ctx, done := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer done()
	if res, err := r.Send(ctx, "acme", http.MethodGet, dir+"?list&limit=1", nil); err == nil {
		res.Body.Close()
		t.Errorf("one more is answered with %d while two are not read", res.StatusCode)
	}
	unread[0].Close()
	r.Want(200, "acme", http.MethodGet, dir+"?list&limit=1", "")
}
