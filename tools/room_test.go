package tools

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
)

// lending lends no files at all, of a sandbox by the name of the session.
type lending struct{ Manager }

func (lending) Files(_ context.Context, req manager.Request, fn func(manager.Share) error) error {
	return fn(manager.Share{Name: req.Who.Session})
}

// TestRoom holds that calls which look through folders, and so take memory by
// what lies in a sandbox, run few at a time in one sandbox, and that those in
// another do not wait for them.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kits := New(Options{Manager: lending{}})
		now, highest := map[string]int{}, map[string]int{}
		var mu sync.Mutex
		count := func(name string, n int) {
			mu.Lock()
			defer mu.Unlock()
			now[name] += n
			highest[name] = max(highest[name], now[name])
			now["all"] += n
			highest["all"] = max(highest["all"], now["all"])
		}
		var all sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			c := &call{Kit: &Kit{tools: kits}}
			c.session.Who.Session = name
			for range 10 {
				all.Go(func() {
					err := c.looking(t.Context(), func(*fsbridge.Bridge) error {
						count(name, 1)
						time.Sleep(time.Second)
						count(name, -1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if highest["a"] > 2 || highest["b"] > 2 || highest["c"] > 2 || highest["all"] != 6 {
			t.Errorf("%v at a time", highest)
		}
	})
}
