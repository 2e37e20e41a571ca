package about

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// engineContext makes a context of Docker in the folder of its configuration.
func engineContext(t *testing.T, dir, name, meta string, certs bool) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	at := filepath.Join(dir, "contexts", "meta", id)
	err := os.MkdirAll(at, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(at, "meta.json"), []byte(meta), 0o600)
	}
	if err == nil && certs {
		err = os.MkdirAll(filepath.Join(dir, "contexts", "tls", id, "docker"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFindEngineByName(t *testing.T) {
	const remote = `{"Name":"x","Endpoints":{"docker":{"Host":"tcp://192.0.2.1:2376","SkipTLSVerify":false}}}`
	for name, tt := range map[string]struct {
		host, context, config, meta string
		certs                       bool
		address, from, says         string
		named                       bool
	}{
		"DOCKER_HOST":                  {host: "tcp://a:1", context: "x", config: `{"currentContext":"x"}`, meta: remote, address: "tcp://a:1", from: "DOCKER_HOST", named: true},
		"DOCKER_CONTEXT":               {context: "x", config: `{"currentContext":"y"}`, meta: remote, address: "tcp://192.0.2.1:2376", from: "DOCKER_CONTEXT", named: true},
		"current context":              {config: `{"currentContext":"x","auths":{}}`, meta: remote, address: "tcp://192.0.2.1:2376", from: "config.json", named: true},
		"with certificates":            {context: "x", meta: remote, certs: true, address: "tcp://192.0.2.1:2376", from: "DOCKER_CONTEXT", named: true},
		"of another name":              {context: "y", meta: remote, says: `no context "y"`, named: true},
		"leads nowhere":                {context: "x", meta: `{}`, says: "names no address", named: true},
		"is no JSON":                   {context: "x", meta: `{`, says: "cannot be read", named: true},
		"does not verify":              {context: "x", meta: strings.Replace(remote, "false", "true", 1), says: "not to verify", named: true},
		"configuration without":        {config: `{"auths":{}}`, address: "unix://"},
		"the default one":              {config: `{"currentContext":"default"}`, address: "unix://"},
		"configuration that is broken": {config: `{"currentContext":`, says: "cannot be read", named: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.config != "" {
				if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(tt.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tt.meta != "" {
				engineContext(t, dir, "x", tt.meta, tt.certs)
			}
			env := func(key string) string {
				return map[string]string{"DOCKER_HOST": tt.host, "DOCKER_CONTEXT": tt.context, "DOCKER_CONFIG": dir, "XDG_RUNTIME_DIR": dir}[key]
			}
			e, err := FindEngine(env)
			if tt.says != "" {
				if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %+v, %v, want %q", e, err, tt.says)
				}
			} else if err != nil || !strings.HasPrefix(e.Address, tt.address) || !strings.HasSuffix(e.From, tt.from) || (e.Certs != "") != tt.certs {
				t.Errorf("got %+v, %v", e, err)
			}
			if got := NamesEngine(env); got != tt.named {
				t.Errorf("named: %v, want %v", got, tt.named)
			}
		})
	}
}

// TestFindEngineSocket holds which sockets of a user are taken, and in which order.
func TestFindEngineSocket(t *testing.T) {
	if (socket{path: strings.TrimPrefix(DefaultEngine, "unix://")}).usable() {
		if e, err := FindEngine(func(string) string { return "" }); err != nil || e.Address != DefaultEngine {
			t.Errorf("an engine that the user may use is not taken: %+v, %v", e, err)
		}
	}
	dir := t.TempDir()
	env := func(key string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[key] }
	first := func() string {
		for _, s := range engineSockets(env)[1:3] {
			if s.usable() {
				return strings.TrimPrefix(s.path, dir)
			}
		}
		return ""
	}
	listen := func(name string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	if got := first(); got != "" {
		t.Errorf("found %q in an empty folder", got)
	}
	if err := os.MkdirAll(filepath.Join(dir, "podman"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "docker.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listen("podman/podman.sock")
	if got := first(); got != "/podman/podman.sock" {
		t.Errorf("beside a file that is no socket %q is found", got)
	}
	if err := os.Remove(filepath.Join(dir, "docker.sock")); err != nil {
		t.Fatal(err)
	}
	listen("docker.sock")
	if got := first(); got != "/docker.sock" {
		t.Errorf("of both %q is found", got)
	}
	if os.Geteuid() == 0 { // else no socket can be given to another user
		for _, name := range []string{"docker.sock", "podman/podman.sock"} {
			if err := os.Chown(filepath.Join(dir, name), 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}
		if got := first(); got != "" {
			t.Errorf("the socket %q of another user is taken", got)
		}
	}
}
