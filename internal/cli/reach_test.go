package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox/config"
)

func TestHostsAndSecretsOfACall(t *testing.T) {
	flags := []string{"--allow-domain", "a.example:443", "--allow-domain=GET http://b.example/pub", "--secret", "TOKEN@a.example", "--secret=OTHER=file:/run/x@a.example,a.example:8443"}
	for _, command := range []string{"run", "exec", "shell"} {
		f := &fake{}
		args := append([]string{command}, flags...)
		if command == "shell" {
			args = append(args, "-c", "true")
		} else {
			args = append(args, "--", "true")
		}
		if r := call(t, f, args...); r.status != 0 || f.request.Flags == nil || f.request.Flags.Network == nil {
			t.Fatalf("%s: status %d %s", command, r.status, r.stderr)
		}
		n := f.request.Flags.Network
		want := map[string]config.SecretSettings{
			"TOKEN": {Hosts: []string{"a.example"}},
			"OTHER": {Hosts: []string{"a.example", "a.example:8443"}, From: config.SecretSource{File: "/run/x"}},
		}
		if !slices.Equal(n.AllowedDomains, []string{"a.example:443", "GET http://b.example/pub"}) || !cmp.Equal(n.Secrets, want) {
			t.Errorf("%s: %q %+v", command, n.AllowedDomains, n.Secrets)
		}
	}
}

// TestSecretsAreNotRepeated holds that a secret which was written on the
// command line by mistake is not written once more.
func TestSecretsAreNotRepeated(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--secret", "TOKEN=hunter2@a.example", "--", "true"},
		{"exec", "--secret=TOKEN=hunter2", "--", "true"},
		{"shell", "--secret", "hunter2-x@a.example", "-c", "true"},
		{"run", "--secret", "TOKEN=file:hunter2@a.example", "-o", "json", "--", "true"},
		{"run", "--secret", "TOKEN=command:hunter2@a.example", "--", "true"},
	} {
		f := &fake{}
		r := call(t, f, args...)
		if r.status != 2 || f.request.Command.Args != nil || strings.Contains(r.stdout+r.stderr, "hunter2") || r.stderr == "" {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, r.status, r.stdout, r.stderr)
		}
	}
	r := call(t, &fake{}, "run", "--secret", "A@a.example", "--secret", "A@b.example", "--", "true")
	if r.status != 2 || !strings.Contains(r.stderr, "--secret A is given twice") {
		t.Errorf("twice: status %d, stderr %q", r.status, r.stderr)
	}
}

// TestExplainTakesHostsAndSecrets holds that explain can be asked about a call
// with its flags.
func TestExplainTakesHostsAndSecrets(t *testing.T) {
	f := &fake{}
	r := call(t, f, "explain", "--host", "a.example", "--allow-domain", "a.example", "--secret", "TOKEN@a.example", "--provider", "local")
	if n := f.flags; r.status != 0 || n == nil || n.Network == nil || !slices.Equal(n.Network.AllowedDomains, []string{"a.example"}) || len(n.Network.Secrets) != 1 || *n.Provider != "local" {
		t.Errorf("status %d, %q, %+v", r.status, r.stderr, n)
	}
	if r := call(t, &fake{}, "explain", "--secret", "TOKEN=hunter2@a.example"); r.status != 2 || strings.Contains(r.stderr, "hunter2") {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
}
