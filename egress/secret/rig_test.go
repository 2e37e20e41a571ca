package secret

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// value is a secret of tests, with characters that each escaping treats
// differently.
const value = `s3cr3t/+"&<é>\'~`

// A rig is a Set whose orchestrator is the test.
type rig struct {
	env map[string]string
	now time.Time
}

func newRig() *rig {
	return &rig{env: map[string]string{"TOKEN": value, "OTHER": "another-secret-0815"}, now: time.Now()}
}

func (r *rig) deps() Deps {
	return Deps{
		LookupEnv: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok },
		Now:       func() time.Time { return r.now },

		commandTime: time.Minute, commandRest: time.Minute, // as long as a busy machine has them take
	}
}

// written parses a binding in the notation of the tests:
// NAME=KIND:SOURCE@HOST,HOST, where a name alone stands for the variable.
func written(t testing.TB, text string) Binding {
	t.Helper()
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		t.Fatalf("%q names no host", text)
	}
	name, from, given := strings.Cut(text[:at], "=")
	b := Binding{Name: name, Hosts: strings.Split(text[at+1:], ","), From: Source{Env: name}}
	switch kind, rest, _ := strings.Cut(from, ":"); {
	case !given:
	case kind == "env":
		b.From = Source{Env: rest}
	case kind == "file":
		b.From = Source{File: rest}
	case kind == "command":
		b.From = Source{Command: strings.Fields(rest)}
	default:
		t.Fatalf("%q names no source", text)
	}
	return b
}

// set makes a Set of bindings.
func (r *rig) set(t testing.TB, flags ...string) *Set {
	t.Helper()
	s, err := r.try(t, flags...)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func (r *rig) try(t testing.TB, flags ...string) (*Set, error) {
	t.Helper()
	var bindings []Binding
	for _, f := range flags {
		bindings = append(bindings, written(t, f))
	}
	return NewSet(t.Context(), bindings, r.deps())
}

// swapped replaces the stand-ins in one Authorization field sent to a host.
func swapped(t testing.TB, s *Set, host string, field string) (string, error) {
	t.Helper()
	header := http.Header{"Authorization": {field}}
	_, err := s.Swap(t.Context(), hostOf(t, host), 443, true, header)
	return header.Get("Authorization"), err
}

func hostOf(t testing.TB, text string) network.Host {
	t.Helper()
	h, err := network.Canonical(text)
	must(t, err)
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks that err has the code, contains the text and no value.
func refused(t testing.TB, err error, code sandbox.Code, text string) {
	t.Helper()
	if sandbox.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%s), want %s with %q", err, sandbox.CodeOf(err), code, text)
	}
	if err != nil && (strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "s3cr3t")) {
		t.Error("the error holds the value: ", err)
	}
}
