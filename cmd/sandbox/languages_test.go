//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A languageTest is a project whose tests run with the registry of its language
// alone, and again with what is in the kept caches.
type languageTest struct {
	name, registry, cache string
	run                   string // installs and tests
	again                 string // the same, without a network or with a sign that the cache was used
	sign                  string // in the output of again
	offline               bool   // again reaches no host
}

func languageTests() []languageTest {
	return []languageTest{
		{"node", "npm", "npm", "npm ci --no-audit --no-fund && npm test", "npm ci --offline --no-audit --no-fund && npm test", "pass 2", true},
		{"python", "pypi", "pip", "pip install -r requirements.txt && pytest -q", "pip install -r requirements.txt && pytest -q", "Using cached docopt", false}, // what it fetched is kept as the headers of the registry say, what it built in any case,
		{"go", "go", "go", "go test -count=1 ./...", "GOFLAGS=-mod=mod GOPROXY=off go test -count=1 ./...", "ok", true},
		{"rust", "cargo", "cargo", "cargo test", "cargo test --offline", "1 passed", true},
		{"java", "maven", "maven", "mvn -q -B test", "mvn -o -B test", "Tests run: 1, Failures: 0", true},
	}
}

// mirrors returns settings with the hosts from which the clients of this machine
// fetch packages, where these are not the public ones, and the variables that name them inside.
func mirrors(t *testing.T) map[string]any {
	t.Helper()
	hosts, env := map[string][]string{}, map[string]string{}
	first := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
		if err != nil {
			return "" // the client is not here, so nothing is configured
		}
		text, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
		return text
	}
	for _, m := range []struct{ registry, address, public, variable string }{
		{"npm", first("npm", "config", "get", "registry"), "https://registry.npmjs.org", "npm_config_registry"},
		{"pypi", first("python3", "-m", "pip", "config", "get", "global.index-url"), "https://pypi.org", "PIP_INDEX_URL"},
		{"go", first("go", "env", "GOPROXY"), "https://proxy.golang.org", "GOPROXY"},
	} {
		if !strings.HasPrefix(m.address, "http") || strings.HasPrefix(m.address, m.public) {
			continue
		}
		scheme, rest, _ := strings.Cut(m.address, "://")
		host, _, _ := strings.Cut(rest, "/")
		hosts[m.registry], env[m.variable] = []string{scheme + "://" + host}, m.address
	}
	// The registries may have addresses that are not public ones here, which a rule has to name.
	for _, registry := range config.Registries() {
		if hosts[registry] == nil {
			r, err := config.Resolve(nil, config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, config.Overrides{Registries: []string{registry}}.Layer())
			if err != nil {
				t.Fatal(err)
			}
			hosts[registry] = r.Network.AllowedDomains
		}
		for _, rule := range hosts[registry] {
			u, err := url.Parse(rule[strings.LastIndex(rule, " ")+1:])
			if err != nil {
				t.Fatal(err)
			}
			addresses, _ := net.DefaultResolver.LookupHost(t.Context(), u.Hostname()) // the client says what is wrong
			for _, a := range addresses {
				hosts[registry] = append(hosts[registry], net.JoinHostPort(a, cmp.Or(u.Port(), "443")))
			}
		}
	}
	return map[string]any{"network": map[string]any{"allowPrivate": true, "registryHosts": hosts}, "docker": map[string]any{"env": env}}
}

// TestLanguages runs the tests of a small project of each language in the image of
// the language: with its registry allowed and nothing else, and again out of the kept caches in
// another sandbox.
func TestLanguages(t *testing.T) {
	testenv.Require(t, "docker")
	testenv.Require(t, "root")
	testenv.Require(t, "languages")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(map[string]any{"agents": map[string]any{"defaults": map[string]any{"sandbox": mirrors(t)}}})
	if err != nil {
		t.Fatal(err)
	}
	file, state := filepath.Join(dir, "settings.json"), filepath.Join(dir, "state")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join("..", "..", "bin", "sandbox")
	call := func(t *testing.T, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", file, "--state-dir", state, "--provider", "docker"}, args...)...)
		cmd.Env = os.Environ()
		if roots := os.Getenv("SSL_CERT_FILE"); roots != "" && os.Getenv("SANDBOX_CA_FILE") == "" {
			cmd.Env = append(cmd.Env, "SANDBOX_CA_FILE="+roots)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if out, err := exec.Command(program, "--config", file, "--state-dir", state, "--provider", "docker", "prune", "--caches", "--idle", "0s").CombinedOutput(); err != nil {
			t.Errorf("prune: %v\n%s", err, out)
		}
	})
	for _, l := range languageTests() {
		t.Run(l.name, func(t *testing.T) {
			work := filepath.Join(dir, l.name)
			fresh := func() {
				t.Helper()
				script := `rm -rf "$1" && cp -r "$2" "$1" && cd "$1" && find . -name '*.txt' ! -name requirements.txt | while read f; do mv "$f" "${f%.txt}"; done && chown -R 1000:1000 .`
				from := filepath.Join("..", "..", "internal", "bench", "testdata", "languages", l.name)
				if out, err := exec.Command("sh", "-ec", script, "sh", work, from).CombinedOutput(); err != nil {
					t.Fatalf("copy the project: %v\n%s", err, out)
				}
			}
			fresh()
			args := []string{"run", "--rm", "--workspace", work, "--image", l.name, "--cache", l.cache}
			if out, err := call(t, append(args, "--allow", l.registry, "--", "sh", "-c", l.run)...); err != nil {
				t.Fatalf("%s: %v\n%s", l.run, err, out)
			}
			fresh()
			again := args
			if !l.offline {
				again = append(args[:len(args):len(args)], "--allow", l.registry)
			}
			out, err := call(t, append(again[:len(again):len(again)], "--", "sh", "-c", l.again)...)
			if err != nil || !strings.Contains(out, l.sign) {
				t.Errorf("again, %s: %v, want %q in\n%s", l.again, err, l.sign, out)
			}
			// Another registry is out of reach.
			other := "pypi.org"
			if l.registry == "pypi" {
				other = "registry.npmjs.org"
			}
			out, err = call(t, append(args[:len(args):len(args)], "--allow", l.registry, "--", "curl", "-sS", "https://"+other)...)
			if err == nil || !strings.Contains(out, "blocked: certain: connect "+other) {
				t.Errorf("%s is reached beside %s: %v\n%s", other, l.registry, err, out)
			}
		})
	}
	out, err := call(t, "list", "--caches", "-o", "json")
	var list struct {
		Caches []struct {
			Workspace string
			Tools     []string
			Bytes     int64
			Sandboxes []string
		}
	}
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Caches) != len(languageTests()) {
		t.Fatalf("list --caches: %v\n%s", err, out)
	}
	for _, c := range list.Caches {
		if len(c.Tools) != 1 || c.Bytes == 0 || len(c.Sandboxes) != 0 || !strings.HasPrefix(c.Workspace, dir) {
			t.Errorf("a cache is listed as %+v", c)
		}
	}
}
