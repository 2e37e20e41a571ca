//go:build linux

package manager_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

func decoded(t *testing.T, data json.RawMessage) (e egress.Event) {
	t.Helper()
	must(t, json.Unmarshal(data, &e))
	return e
}

// TestReach holds that a sandbox without a network reaches the hosts that its
// settings name, and no others, and that both are on record.
func TestReach(t *testing.T) {
	t.Parallel()
	onProviders(t, reaches)
}

// reaches holds it of one sandbox.
func reaches(o *outward) {
	allowed := o.allowing(testenv.Files)
	if got := o.fetch(allowed, testenv.Files, "/greeting.txt"); !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.HasSuffix(got, testenv.Content) {
		o.t.Errorf("allowed: %s", got)
	}
	got := o.fetch(allowed, testenv.Other, "/greeting.txt")
	if !strings.HasPrefix(got, "HTTP/1.1 403 Blocked by sandbox: network.allowedDomains") || strings.Contains(got, testenv.Content) {
		o.t.Errorf("not allowed: %s", got)
	}
	if n := o.net.Hits(testenv.Other); n > 0 {
		o.t.Errorf("%d requests came through", n)
	}
	if slices.ContainsFunc(o.net.Names.Asked(), func(name string) bool { return strings.HasPrefix(name, testenv.Other) }) {
		o.t.Error("a name was looked up that is not allowed")
	}
	want := []string{
		"allow " + o.net.At("http", testenv.Files) + " network.allowedDomains[0]: " + testenv.Files,
		"deny " + o.net.At("http", testenv.Other) + " network.allowedDomains",
	}
	if d := o.decisions(); !slices.Equal(slices.Sorted(slices.Values(d)), want) {
		o.t.Errorf("on record: %q", d)
	}
}

// TestBlockedByEgress holds that a command which fails because of a refusal
// is blocked, with the host and the rule, and one that succeeds is not.
func TestBlockedByEgress(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		r, err := o.try(o.allowing(testenv.Files), o.get(testenv.Other, "/"))
		must(o.t, err)
		if r.Blocked || len(r.Violations) != 1 || r.Violations[0].Resource != o.net.At("http", testenv.Other) {
			o.t.Errorf("a command that succeeds: %+v", r)
		}
		r, err = o.try(o.allowing(testenv.Files), o.get(testenv.Other, "/")+"; exit 7")
		must(o.t, err)
		if !r.Blocked || r.BlockedResource != o.net.At("http", testenv.Other) || !strings.Contains(r.BlockedReason, "network.allowedDomains") {
			o.t.Errorf("a command that fails: %+v", r)
		}
	})
}

// TestRulesAreLive holds that rules for hosts, and a secret, take effect with the
// next command in the same sandbox, also while a command with other rules runs,
// and that each command has its own rules alone.
func TestRulesAreLive(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		r, err := o.try(nil, `test -z "$HTTP_PROXY" && echo kept >/tmp/kept`)
		must(o.t, err)
		if r.ExitCode != 0 {
			o.t.Fatalf("without rules there is a proxy: %+v", r)
		}
		if got := o.fetch(o.allowing(testenv.Files), testenv.Files, "/greeting.txt"); !strings.Contains(got, " 200 ") {
			o.t.Fatal(got)
		}
		started, ended := make(chan struct{}), make(chan string, 1)
		go func() { // has its rules for as long as it runs
			r, err := o.try(o.allowing(testenv.Files), "until test -e /tmp/go; do sleep 0.05; done; "+o.get(testenv.Files, "/greeting.txt")+"; "+o.get(testenv.Other, "/"), func(r *manager.Request) {
				r.Started = func(sandbox.Process) { close(started) }
			})
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- string(r.Stdout)
		}()
		<-started
		if got := o.fetch(o.allowing(testenv.Other), testenv.Other, "/greeting.txt"); !strings.Contains(got, " 200 ") {
			o.t.Errorf("a host more: %s", got)
		}
		secret := o.allowing(testenv.Echo)
		secret.Network.Secrets = map[string]config.SecretSettings{"TOKEN": {Hosts: []string{o.net.At("http", testenv.Echo)}, From: config.SecretSource{Env: "OUTER_TOKEN"}}}
		r, err = o.try(secret, `test -n "$TOKEN" && cat /tmp/kept "$SSL_CERT_FILE" >/dev/null && curl -sS -i --max-time 60 -H "X-Token: $TOKEN" `+o.net.URL("http", testenv.Echo, "/"))
		must(o.t, err)
		if r.ExitCode != 0 || !strings.Contains(string(r.Stdout), " 200 ") {
			o.t.Errorf("a secret: %d %s %s", r.ExitCode, r.Stdout, r.Stderr)
		}
		r, err = o.try(nil, `test -z "$HTTP_PROXY$TOKEN" && cat /tmp/kept && touch /tmp/go`)
		must(o.t, err)
		if string(r.Stdout) != "kept\n" {
			o.t.Errorf("the same sandbox without flags: %d %q %s", r.ExitCode, r.Stdout, r.Stderr)
		}
		if got := <-ended; !strings.Contains(got, " 200 ") || !strings.Contains(got, " 403 ") {
			o.t.Errorf("the command that ran meanwhile: %s", got)
		}
	})
}

// TestNoEgressByDefault holds that nothing is opened where nothing is allowed.
func TestNoEgressByDefault(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		r, err := o.try(nil, "env; cat /proc/net/tcp")
		must(o.t, err)
		if s := strings.ToLower(string(r.Stdout)); strings.Contains(s, "proxy") || strings.Count(s, "\n0: ") > 0 {
			o.t.Errorf("%s", r.Stdout)
		}
		if c := o.plane.Counters(); c.Connections != 0 {
			o.t.Errorf("%+v", c)
		}
	})
}

// TestAsking checks that a host which no rule names is asked about once, that
// the answer lasts as long as it was given for, and that the answer without an
// approver is no.
func TestAsking(t *testing.T) {
	t.Parallel()
	asking := func(r *manager.Request) { r.Ask = true }
	ask := func(o *outward) *config.SandboxSettings {
		s := o.allowing()
		s.Network.Ask = new(true)
		return s
	}
	for _, tt := range []struct {
		answer sandbox.Permission
		first  string // status of the first command's requests
		again  int    // questions after the second command
	}{
		{sandbox.AllowOnce, "200", 2}, {sandbox.AllowSession, "200", 1}, {sandbox.AllowPermanent, "200", 1}, {sandbox.Deny, "403", 1},
	} {
		t.Run(string(tt.answer), func(t *testing.T) {
			onProviders(t, func(o *outward) {
				if strings.HasSuffix(o.t.Name(), "/docker") && tt.answer != sandbox.AllowSession && tt.answer != sandbox.Deny {
					testenv.Exhaustive(o.t, "answers that end at the same code, with a container")
				}
				o.answer = tt.answer
				flags := ask(o)
				twice := o.get(testenv.Files, "/greeting.txt") + "; " + o.get(testenv.Files, "/greeting.txt")
				r, err := o.try(flags, twice+"; exit 7", asking)
				must(o.t, err)
				if said := strings.Contains(r.BlockedReason, "; permission was asked for and denied: do without it"); r.ExitCode != 7 || said != (tt.answer == sandbox.Deny) || r.Blocked != said {
					o.t.Errorf("status %d, blocked by %q", r.ExitCode, r.BlockedReason)
				}
				if n := strings.Count(string(r.Stdout), "HTTP/1.1 "+tt.first); n != 2 || o.questions() != 1 {
					o.t.Fatalf("%d of two, %d questions: %s", n, o.questions(), r.Stdout)
				}
				q := o.asked[0]
				if q.Kind != sandbox.ResourceNetwork || q.Operation != sandbox.OpConnect || q.Resource != o.net.At("http", testenv.Files) || q.Session != "s" || q.Command[0] != "sh" {
					o.t.Errorf("asked %+v", q)
				}
				o.fetch(flags, testenv.Files, "/greeting.txt", asking)
				if o.questions() != tt.again {
					o.t.Errorf("%d questions after the second command, want %d", o.questions(), tt.again)
				}
			})
		})
	}
	t.Run("nobody", func(t *testing.T) {
		onProviders(t, func(o *outward) {
			o.answer = sandbox.AllowSession
			if got := o.fetch(ask(o), testenv.Files, "/greeting.txt"); !strings.Contains(got, " 403 ") || o.questions() != 0 {
				o.t.Errorf("%d questions: %s", o.questions(), got)
			}
		})
	})
}
