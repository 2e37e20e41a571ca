package cli

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// fakePorts returns what a test sets and notes what it is asked.
type fakePorts struct {
	place    PortPlace
	ports    []api.Port
	shares   []api.Share
	made     api.NewShare
	err      error
	request  manager.Request
	asked    api.SharePort
	revoked  []string
	released bool
}

func (f *fakePorts) Find(_ context.Context, r manager.Request) (PortPlace, error) {
	f.request = r
	return f.place, f.err
}

func (f *fakePorts) List(_ context.Context, r manager.Request) (PortPlace, []api.Port, error) {
	f.request = r
	return f.place, f.ports, f.err
}

func (f *fakePorts) Dial(context.Context, manager.Request, int) (net.Conn, error) {
	return nil, errTest
}

func (f *fakePorts) Share(_ context.Context, r manager.Request, s api.SharePort) (api.NewShare, error) {
	f.request, f.asked = r, s
	return f.made, f.err
}

func (f *fakePorts) Shares(context.Context, manager.Request) (string, []api.Share, error) {
	return f.place.Sandbox, f.shares, f.err
}

func (f *fakePorts) Revoke(_ context.Context, _ manager.Request, id string) error {
	if len(f.revoked) > 0 && f.err != nil {
		return f.err
	}
	f.revoked = append(f.revoked, id)
	return nil
}

// TestPortUse holds whose sandbox the commands about ports use, and that they make
// none.
func TestPortUse(t *testing.T) {
	for _, args := range []string{"list", "forward 0:80", "share 80", "share 80 --for 90s --public"} {
		f := &fake{}
		f.portStore.err = &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Message: "there is none"}
		r := call(t, f, append([]string{"--tenant", "acme", "port"}, append(strings.Fields(args), "--session", "s", "--provider", "local")...)...)
		q := f.portStore.request
		if r.status != 125 || r.stdout != "" || q.Who.Tenant != "acme" || q.Who.Session != "s" || !q.MustExist || *q.Flags.Provider != "local" || !f.portStore.released {
			t.Errorf("%s: status %d %q: %+v", args, r.status, r.stderr, q)
		}
		if a := f.portStore.asked; args == "share 80" && (a.Port != 80 || a.TTLSeconds != 3600 || a.Public) || strings.HasSuffix(args, "public") && (a.TTLSeconds != 90 || !a.Public) {
			t.Errorf("%s: %+v", args, a)
		}
	}
}

// TestPortShows holds what the lists look like, also where what is inside wants to
// control the terminal.
func TestPortShows(t *testing.T) {
	f := &fake{}
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	f.portStore = fakePorts{
		place: PortPlace{Sandbox: "sbx-a"}, ports: []api.Port{{Address: "127.0.0.1", Port: 80, PID: 7, Command: "perl " + hostile}, {Address: "::", Port: 8080}},
		shares: []api.Share{{ID: "aa", Sandbox: "sbx-a", Port: 80, Host: "80-x.localhost", Created: at, Expires: at.Add(time.Hour)}, {ID: hostile, Host: hostile, Public: true, Created: at, Expires: at}},
		made:   api.NewShare{Share: api.Share{ID: hostile, Sandbox: "sbx-a", Port: 80, Expires: at}, URL: "http://80-x.localhost/?sandbox-share=" + hostile},
	}
	for _, command := range []string{"list", "shares", "share 80", "revoke " + "aa"} {
		for _, format := range []string{"table", "json"} {
			r := call(t, f, append([]string{"port", "-o", format}, strings.Fields(command)...)...)
			for _, c := range r.stdout + r.stderr {
				if c != '\n' && !termsafe.Safe(c) {
					t.Errorf("%s %s holds %U", command, format, c)
				}
			}
			if r.status != 0 || format == "json" && !json.Valid([]byte(r.stdout)) {
				t.Errorf("%s: status %d: %s%s", command, r.status, r.stdout, r.stderr)
			}
			if format == "table" && command != "share 80" {
				golden(t, "port_"+strings.Fields(command)[0], r.stdout)
			}
		}
	}
	f.portStore.place.Alone = true
	if r := call(t, f, "port", "list"); !strings.Contains(r.stderr, "a local sandbox of its own") {
		t.Errorf("it does not say that other programs are not seen: %s", r.stderr)
	}
	empty := call(t, &fake{}, "port", "list", "-o", "json")
	if !strings.Contains(empty.stdout, `"ports": []`) {
		t.Errorf("%s", empty.stdout)
	}
}

// TestPortRevokeStops holds that what was revoked before a failure is said.
func TestPortRevokeStops(t *testing.T) {
	f := &fake{}
	f.portStore.err = &sandbox.Error{Code: sandbox.CodeNotFound, Op: "revoke", Message: "there is no such link"}
	if r := call(t, f, "port", "revoke", "aa", "bb"); r.status != 125 || r.stdout != "revoked aa\n" || !strings.Contains(r.stderr, "no such link") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
