//go:build linux

package manager_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestWaitOfConnections holds that a command whose connections waited because of
// network.limits.connections, and which succeeds, is said to have waited; and that
// the next command, which did not wait, is not.
func TestWaitOfConnections(t *testing.T) {
	onProviders(t, func(o *outward) {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				io.WriteString(w, "begun ")
				w.(http.Flusher).Flush()
				testenv.Until(o.t, "the other one is on its way", func() bool {
					sent, err := filepath.Glob(filepath.Join(o.state.Workspaces(), "*", "sent"))
					return err == nil && len(sent) == 1
				})
				began := time.Now()
				testenv.Until(o.t, "the other one has waited", func() bool { return time.Since(began) >= 1500*time.Millisecond })
			}
			io.WriteString(w, "ok\n")
		}))
		defer web.Close()
		one := int64(1) // at a time
		flags := &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: []string{"GET " + web.URL + "/"}, Limits: &config.NetworkLimitSettings{Connections: &one}}}
		get := "curl -sS --max-time 60 " + web.URL
		r, err := o.try(flags, get+"/slow -N >/tmp/slow & until test -s /tmp/slow; do sleep 0.01; done; "+
			get+"/b -v 2>/tmp/b & until grep -q '^> ' /tmp/b; do sleep 0.01; done; touch sent; wait; cat /tmp/slow")
		must(o.t, err)
		if r.ExitCode != 0 || strings.Count(string(r.Stdout), "ok") != 2 || !r.Waited.Long() || r.Waited.Connections < 1 || len(r.Violations) != 0 {
			o.t.Errorf("%+v: %s%s", r.Waited, r.Stdout, r.Stderr)
		}
		r, err = o.try(flags, get+"/b")
		must(o.t, err)
		if r.ExitCode != 0 || r.Waited != nil {
			o.t.Errorf("the next command: %+v: %s%s", r.Waited, r.Stdout, r.Stderr)
		}
	})
}
