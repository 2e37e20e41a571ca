//go:build linux

package manager_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestBrowserIsDeclared holds that the use of a browser without a grant is on
// record where nothing may be done that is not, and nowhere else.
func TestBrowserIsDeclared(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "browser")
	onControlled(t, "", func(c *controlled) {
		if c.wall != "docker" {
			return // browsers live in containers
		}
		for want, extra := range []string{``, `, "requireEvidence": true`} {
			parsed, err := config.Parse("test", []byte(c.settingsFor(extra)))
			must(c.t, err)
			c.Reload(parsed)
			ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
			defer done()
			b, err := c.OpenBrowser(ctx, manager.BrowserRequest{Who: config.Who{Tenant: tenant, Agent: "main", Session: "web"}})
			must(c.t, err)
			must(c.t, b.Close())
			must(c.t, b.Close())
			begins, ends := 0, 0
			for r, err := range c.evidence.Query(ctx, evidence.Filter{Tenant: tenant}) {
				must(c.t, err)
				switch r.Type {
				case evidence.TypeBegin:
					var begin evidence.Begin
					must(c.t, json.Unmarshal(r.Data, &begin))
					if begin.Kind == evidence.Browser && begin.Sandbox == b.Name() {
						begins++
					}
				case evidence.TypeEnd:
					ends++
				}
			}
			if begins != want || ends != want {
				c.t.Errorf("settings %q: %d begins and %d ends are on record, want %d", extra, begins, ends, want)
			}
		}
	})
}

// TestForgetting checks that the notes about expired grants are removed now and
// then, and that no goroutine does so after the end.
func TestForgetting(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		var times atomic.Int32
		forget := c.ctl.Control.Sweep
		c.ctl.Control.Sweep = func(ctx context.Context) error {
			err := forget(ctx)
			times.Add(1)
			return err
		}
		for range 3 {
			if _, err := c.operate(c.operation(grant.Operation{Kind: grant.OpFsList, Path: "/workspace"})); err != nil {
				c.t.Fatal(err)
			}
		}
		must(c.t, c.Close())
		if n := times.Load(); n != 1 {
			c.t.Errorf("it was forgotten %d times within a moment", n)
		}
		if strings.Contains(c.log.String(), "could be forgotten") {
			c.t.Error(c.log.String())
		}
	})
}
