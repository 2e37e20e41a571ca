//go:build linux

package manager_test

import (
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/remote"
)

// behind puts the walls of a manager behind a daemon at a socket.
func behind(t *testing.T, set *provider.Set) *provider.Set {
	t.Helper()
	h := remote.NewWalls(remote.Options{Providers: set, Instances: func(string) bool { return true }})
	sock := filepath.Join(t.TempDir(), "d.sock")
	l, err := net.Listen("unix", sock)
	must(t, err)
	server := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		h.Close()
		server.Close()
		<-ended
	})
	c, err := sdk.NewAPI("unix:"+sock, sdk.APIOptions{})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	p, err := sdk.OpenProvider(t.Context(), c, "docker", sdk.ProviderOptions{})
	must(t, err)
	far, err := provider.New(p)
	must(t, err)
	return far
}

// TestReachBehindDaemon holds that the proxy of a manager is the only way out
// of sandboxes that are behind a daemon, as it is of those beside it.
func TestReachBehindDaemon(t *testing.T) {
	t.Parallel()
	o := &outward{t: t, net: testenv.NewInternet(t), who: who("s")}
	r := newRig(t)
	r.change = func(opts *manager.Options) {
		opts.Providers = behind(t, opts.Providers)
		o.open(opts, r.state)
	}
	o.Manager = r.manager("")
	reaches(o)

	// Around the proxy there is nothing: not an address that no rule names, not
	// this machine, not a name.
	trap := testenv.NewTrap(t, "127.0.0.1")
	before := o.net.Hits(testenv.Files)
	for _, url := range []string{"http://127.0.0.9:" + strconv.Itoa(o.net.Port("http")) + "/greeting.txt", "http://" + trap.At() + "/", o.net.URL("http", testenv.Files, "/greeting.txt")} {
		res, err := o.try(o.allowing(testenv.Files), "curl -sS --noproxy '*' --max-time 20 '"+url+"'")
		must(t, err)
		if res.ExitCode == 0 || len(res.Stdout) > 0 {
			t.Errorf("%s around the proxy: status %d, %s", url, res.ExitCode, res.Stdout)
		}
	}
	if n := o.net.Hits(testenv.Files) - before; n != 0 {
		t.Errorf("%d requests came around the proxy", n)
	}
	// And through it, this machine is not allowed by any name.
	res, err := o.try(o.allowing(testenv.Files), "curl -sS -i --noproxy '' --max-time 20 'http://"+trap.At()+"/'")
	must(t, err)
	if got := string(res.Stdout); !strings.HasPrefix(got, "HTTP/1.1 403 Blocked by sandbox") {
		t.Errorf("this machine through the proxy: status %d, %s", res.ExitCode, got)
	}
	if c := o.plane.Counters(); c.Connections == 0 {
		t.Errorf("nothing came through the proxy: %+v", c)
	}
	// Much, and many at once.
	line := "for i in $(seq 20); do curl -sS --max-time 60 '" + o.net.URL("http", testenv.Files, "/zeros?n=1048577") + "' | wc -c & done; wait"
	res, err = o.try(o.allowing(testenv.Files), line)
	must(t, err)
	if got := strings.Fields(string(res.Stdout)); len(got) != 20 || strings.Count(string(res.Stdout), "1048577") != 20 {
		t.Errorf("20 downloads at once brought %q: %s", got, res.Stderr)
	}
}
