//go:build linux

package manager_test

import (
	"cmp"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// onPods is a rig whose sandboxes are pods, of which so many are kept ready.
func onPods(t *testing.T, ready int) (*podRig, *outward) {
	t.Helper()
	r := newPodRig(t)
	o := &outward{t: t, net: testenv.NewInternet(t), who: who("s")}
	change := r.rig.change
	r.rig.change = func(opts *manager.Options) {
		change(opts)
		o.open(opts, r.state)
	}
	o.Manager = r.manager(r.pooled(ready))
	return r, o
}

// TestKubeSecrets is TestSecrets for a new pod and for one that was kept ready. The
// certificates of the proxy, which no pod can mount, are brought to commands again when
// they have changed, when a command has removed them, and never more than a few times.
func TestKubeSecrets(t *testing.T) {
	t.Run("new", func(t *testing.T) {
		_, o := onPods(t, 0)
		putsSecretsIn(o)
	})
	t.Run("kept ready", func(t *testing.T) {
		r, o := onPods(t, 1)
		if n := r.fill(o.Manager, 1); n != 1 {
			t.Fatal("no slot is ready")
		}
		putsSecretsIn(o)
		if taken := r.ready(o.Manager); taken != 0 {
			t.Error("the sandbox is not the pod that was kept ready")
		}

		flags := o.allowing("api.test")
		flags.Network.Secrets = map[string]config.SecretSettings{
			"TOKEN": {Hosts: []string{"api.test:" + strconv.Itoa(o.net.Port("https"))}, From: config.SecretSource{Env: "OUTER_TOKEN"}},
		}
		fetch := `curl -sS -o /dev/null -w '%{http_code} ' '` + o.net.URL("https", "api.test", "/") + `' && ls /.sandbox/trust | wc -l`
		run := func(line string) string {
			t.Helper()
			r, err := o.try(flags, line)
			must(t, err)
			return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
		}
		run("chmod -R u+w /.sandbox/trust; rm -rf /.sandbox/trust/*")
		if got := run(fetch); got != "200 1" {
			t.Errorf("after a command has removed the certificates: %q", got)
		}
		authority, err := egress.Open(o.state.Egress())
		must(t, err)
		const kept = 7
		for n := range 2 * kept { // as if so many programs served the sandbox one after the other
			fewerRoots(t)
			_, err := authority.Bundle()
			must(t, err)
			if got, want := run(fetch), fmt.Sprint("200 ", min(n+2, kept)); got != want {
				t.Errorf("with the certificates of %d programs: %q, want %q", n+2, got, want)
			}
		}
	})
}

// fewerRoots takes a certificate from those that this program trusts.
func fewerRoots(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(cmp.Or(os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt"))
	must(t, err)
	_, rest := pem.Decode(data)
	file := filepath.Join(t.TempDir(), "roots.pem")
	must(t, os.WriteFile(file, rest, 0o600))
	t.Setenv("SSL_CERT_FILE", file)
}
