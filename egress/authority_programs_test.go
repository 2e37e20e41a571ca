package egress

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestPrograms checks that common programs trust a host of the authority with
// the variables of Env and nothing else, and do not trust it without them.
// Their server is on loopback; programs that are not installed are skipped.
func TestPrograms(t *testing.T) {
	a := authorityNewRig(t).open(t)
	dir, err := a.Bundle()
	authorityMust(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "it is trusted") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	leaf, err := a.Leaf("127.0.0.1")
	authorityMust(t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	server.StartTLS()
	defer server.Close()
	url := server.URL + "/x"
	const python = `import sys, ssl, urllib.request; c = ssl.create_default_context()
if hasattr(ssl, "VERIFY_X509_STRICT"): c.verify_flags |= ssl.VERIFY_X509_STRICT
print(urllib.request.urlopen(sys.argv[1], context=c).read().decode())`
	tests := []struct {
		name    string
		program []string
		only    string // the variable without which the program does not trust, when one decides
	}{
		{"curl", []string{"curl", "-sS", url}, "CURL_CA_BUNDLE SSL_CERT_FILE"},
		{"wget", []string{"wget", "-qO-", url}, "WGETRC SSL_CERT_FILE"},
		{"openssl", []string{"sh", "-c", "openssl s_client -verify_return_error -connect $1 </dev/null >/dev/null 2>&1 && echo it is trusted", "sh", strings.TrimPrefix(server.URL, "https://")}, "SSL_CERT_FILE"},
		{"python", []string{"python3", "-c", python, url}, "SSL_CERT_FILE"},
		{"python requests", []string{"python3", "-c", "import sys, requests; print(requests.get(sys.argv[1]).text)", url}, "REQUESTS_CA_BUNDLE CURL_CA_BUNDLE"},
		{"pip", []string{"sh", "-c", `python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check --retries 0 -d "$HOME" "$1/a-1.0.zip" 2>&1 | grep -q "SSL\|CERTIFICATE" || echo it is trusted`, "sh", url}, "PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE"},
		{"git", []string{"sh", "-c", `git ls-remote "$1" 2>/dev/null && echo it is trusted`, "sh", url}, "GIT_SSL_CAINFO SSL_CERT_FILE"},
		{"node", []string{"node", "-e", `fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.error(e.cause || e); process.exit(1) })`, url}, "NODE_EXTRA_CA_CERTS"},
		{"npm", []string{"sh", "-c", `npm view --registry "$1" --fetch-retries 0 x 2>&1 | grep -q "issuer certificate\|SELF_SIGNED\|self.signed\|UNABLE_TO" || echo it is trusted`, "sh", url}, "npm_config_cafile NODE_EXTRA_CA_CERTS"},
		{"perl", []string{"perl", "-MLWP::UserAgent", "-e", `my $r = LWP::UserAgent->new->get($ARGV[0]); print $r->decoded_content; exit !$r->is_success`, url}, "PERL_LWP_SSL_CA_FILE SSL_CERT_FILE"},
		{"ruby", []string{"ruby", "-ropen-uri", "-e", "print URI.open(ARGV[0]).read", url}, "SSL_CERT_FILE"},
		{"cargo", []string{"sh", "-c", `cargo search --registry x --config "registries.x.index='sparse+$1/'" y 2>&1 | grep -qi "ssl\|certificate" || echo it is trusted`, "sh", url}, "CARGO_HTTP_CAINFO SSL_CERT_FILE"},
		{"php", []string{"php", "-r", `echo file_get_contents($argv[1]) ?: exit(1);`, url}, "SSL_CERT_FILE"},
		{"deno", []string{"deno", "eval", `console.log(await (await fetch(Deno.args[0])).text())`, url}, "DENO_CERT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := exec.LookPath(tt.program[0]); err != nil {
				testenv.Lack(t, need(tt.name), tt.name+" is not installed")
			}
			with, without := runWith(t, tt.program, authorityEnvironment(a, dir, "")), runWith(t, tt.program, authorityEnvironment(a, dir, tt.only))
			if right := with == "it is trusted" && without != "it is trusted"; !right && !works(tt.name) {
				testenv.Lack(t, need(tt.name), tt.name+" is not installed")
			}
			if with != "it is trusted" {
				t.Errorf("with the variables: %s", with)
			}
			if without == "it is trusted" {
				t.Errorf("it is trusted without %s too", tt.only)
			}
		})
	}
}

// need returns the requirement of a test's program.
func need(name string) string {
	switch name {
	case "openssl", "ruby", "cargo", "php", "deno":
		return name
	case "perl":
		return "perl-lwp" // Perl itself fetches nothing
	}
	return "nettools"
}

// works reports whether the program of a test can be run.
func works(name string) bool {
	probe := map[string][]string{
		"python requests": {"python3", "-c", "import requests"}, "pip": {"python3", "-m", "pip", "--version"}, "perl": {"perl", "-MLWP::UserAgent", "-MLWP::Protocol::https", "-e1"},
		"openssl": {"openssl", "version"}, "git": {"git", "--version"}, "npm": {"npm", "--version"}, "cargo": {"cargo", "--version"},
	}[name]
	return probe == nil || exec.Command(probe[0], probe[1:]...).Run() == nil
}

// authorityEnvironment returns the environment of a command inside, with the
// folder's path on this machine, and without the named variables.
func authorityEnvironment(a *Authority, dir, without string) []string {
	var env []string
	for name, value := range a.Env() {
		if !slices.Contains(strings.Fields(without), name) {
			env = append(env, name+"="+strings.Replace(value, sandbox.TrustDir, dir, 1))
		}
	}
	return env
}

func runWith(t *testing.T, program, env []string) string {
	t.Helper()
	home := t.TempDir()
	// The configuration for wget names the folder inside.
	rc := filepath.Join(home, "wgetrc")
	for i, e := range env {
		if path, ok := strings.CutPrefix(e, "WGETRC="); ok {
			data, err := os.ReadFile(path)
			authorityMust(t, err)
			authorityMust(t, os.WriteFile(rc, []byte(strings.ReplaceAll(string(data), sandbox.TrustDir, filepath.Dir(path))), 0o600))
			env[i] = "WGETRC=" + rc
		}
	}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Dir = home
	cmd.Env = append(env, "HOME="+home, "PATH="+os.Getenv("PATH"), "NO_PROXY=*", "no_proxy=*", "CARGO_HOME="+home, "GIT_TERMINAL_PROMPT=0",
		"PYENV_ROOT="+os.Getenv("PYENV_ROOT"), "RUSTUP_HOME="+rustup())
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out))
}

// rustup returns the toolchains' folder of a cargo installed by rustup.
func rustup() string {
	if dir := os.Getenv("RUSTUP_HOME"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".rustup")
}
