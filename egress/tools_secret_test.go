//go:build linux

package egress

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// value is the secret, in a form that occurs nowhere else.
const value = "s3cr3t-0f-the-t3st-qzvx"

// boundFixture returns a stage in the local sandbox, with a secret that is bound
// to every allowed host, so that all of their TLS is read. Programs trust only
// the authorities named by the proxy's variables.
func boundFixture(t *testing.T) *fixture {
	t.Helper()
	w := dockertest.NewLocal(t)
	a, err := Open(filepath.Join(w.State.Path(), "egress"))
	toolsMust(t, err)
	trust, err := a.Bundle()
	toolsMust(t, err)
	spec := w.Spec("secrets")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: trust, Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust})
	s := &fixture{net: testenv.NewInternet(t), sb: openLocal(t, w, spec), bound: true}
	file := filepath.Join(t.TempDir(), "token")
	toolsMust(t, os.WriteFile(file, []byte(value+"\n"), 0o600))
	binding := secret.Binding{Name: "API_TOKEN", From: secret.Source{File: file}}
	for _, host := range allowedHosts() {
		binding.Hosts = append(binding.Hosts, s.net.At("https", host))
	}
	set, err := secret.NewSet(t.Context(), []secret.Binding{binding}, secret.Deps{})
	toolsMust(t, err)
	t.Cleanup(func() { set.Close() })
	s.open(t, SessionOptions{Secrets: set, Authority: a})
	return s
}

// TestToolsTrustTheProxy runs every tool against hosts whose TLS the proxy
// reads.
func TestToolsTrustTheProxy(t *testing.T) {
	testenv.Require(t, "nettools")
	s := boundFixture(t)
	for _, tt := range slices.Concat(onEveryProvider(), onTheHost()) {
		t.Run(tt.name, func(t *testing.T) {
			tt.wantShown(t)
			tt.once(t)
			got := s.run(t, tt.name, tt.allowed)
			if got.code != 0 || !strings.Contains(got.out, strings.TrimSpace(tt.says)) || len(got.refused) > 0 {
				t.Errorf("exit %d, refused %+v, output:\n%s", got.code, got.refused, got.out)
			}
			read := slices.ContainsFunc(s.recorded(tt.name), func(e Event) bool { return e.Protocol == ProtocolIntercepted })
			if plain := strings.Contains(tt.name, "plain http"); read == plain {
				t.Errorf("read inside TLS: %v; recorded: %+v", read, s.recorded(tt.name))
			}
		})
	}
	t.Run("secret", s.secret)
}

// secret checks that tools send the value without having it.
func (s *fixture) secret(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	s.net.Handle(testenv.Echo, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Header.Get("Authorization"))
		w.Header().Set("X-Seen", r.Header.Get("Authorization"))
		io.WriteString(w, "seen: "+r.Header.Get("Authorization")+"\n")
	}))
	const get = `'import os,sys,urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], headers={"Authorization": "Bearer " + os.environ["API_TOKEN"]})).read().decode())' "$ECHO/"`
	for name, line := range map[string]string{
		"curl":     `curl -sSi -H "Authorization: Bearer $API_TOKEN" "$ECHO/"`,
		"wget":     `wget -nv -O - --save-headers --header "Authorization: Bearer $API_TOKEN" "$ECHO/"`,
		"urllib":   testenv.SystemPython + ` -c ` + get,
		"requests": testenv.SystemPython + ` -c 'import os,sys,requests; r = requests.get(sys.argv[1], headers={"Authorization": "Bearer " + os.environ["API_TOKEN"]}); print(r.headers, r.text)' "$ECHO/"`,
	} {
		t.Run(name, func(t *testing.T) {
			sent = nil
			got := s.run(t, "secret "+name, line+`; env; cat /proc/self/environ`)
			mu.Lock()
			defer mu.Unlock()
			if len(sent) != 1 || sent[0] != "Bearer "+value {
				t.Errorf("the host saw %q; exit %d, output:\n%s", sent, got.code, got.out)
			}
			if strings.Contains(got.out, value) || !strings.Contains(got.out, "seen: Bearer ") {
				t.Errorf("inside it reads:\n%s", got.out)
			}
			for _, e := range s.recorded("secret " + name) {
				if strings.Contains(e.Message+e.Path+e.Rule+e.Error, value) {
					t.Errorf("recorded: %+v", e)
				}
			}
		})
	}
	t.Run("to another host", func(t *testing.T) {
		sent = nil
		// The host is allowed, and the secret is not bound to its plain HTTP
		// port.
		got := s.run(t, "secret elsewhere", `curl -sS -H "Authorization: Bearer $API_TOKEN" "$ECHO_PLAIN/"`)
		mu.Lock()
		defer mu.Unlock()
		if slices.ContainsFunc(sent, func(h string) bool { return strings.Contains(h, value) }) || strings.Contains(got.out, value) {
			t.Errorf("the value went out in the clear: %q, %s", sent, got.out)
		}
	})
}
