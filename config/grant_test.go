package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestGranted(t *testing.T) {
	const file = `{"agents": {"defaults": {"sandbox": {"filesystem": {"allowWrite": ["/d"]}}}, "list": [{"id": "a", "sandbox": {"mode": "all"}}, {"id": "b"}]}}`
	tests := []struct {
		agent string
		op    sandbox.Operation
		path  string
		want  map[string][]string // by agent
	}{
		{"a", sandbox.OpWrite, "/x", map[string][]string{"a": {"/d", "/x"}, "b": {"/d"}, "main": {"/d"}}},
		{"b", sandbox.OpWrite, "/x", map[string][]string{"a": {"/d"}, "b": {"/d", "/x"}, "main": {"/d"}}},
		{"main", sandbox.OpWrite, "/$x", map[string][]string{"a": {"/d", "/$$x"}, "b": {"/d", "/$$x"}, "main": {"/d", "/$$x"}}},
		{"main", sandbox.OpWrite, "/d", map[string][]string{"main": {"/d"}}},
		{"main", sandbox.OpRead, "/x", map[string][]string{"main": {"/d"}}},
		{"main", sandbox.OpExecute, "/x", map[string][]string{"main": {"/d"}}},
	}
	for _, tt := range tests {
		s, err := Parse("t", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(s)
		got := Granted(s, tt.agent, sandbox.Grant{Operation: tt.op, Path: tt.path})
		for agent, want := range tt.want {
			r, err := Resolve(got, Who{Agent: agent, Session: "s"}, nil)
			if err != nil || !slices.Equal(r.Filesystem.AllowWrite, want) {
				t.Errorf("%s for %s: agent %s gets %q, %v", tt.path, tt.agent, agent, r.Filesystem.AllowWrite, err)
			}
		}
		if after, _ := json.Marshal(s); string(after) != string(before) {
			t.Errorf("the settings were changed to %s", after)
		}
	}
	r, err := Resolve(Granted(nil, "main", sandbox.Grant{Operation: sandbox.OpRead, Path: "/x"}), Who{Agent: "main", Session: "s"}, nil)
	if err != nil || !slices.Equal(r.Filesystem.AllowRead, []string{"/x"}) {
		t.Errorf("without a file: %q, %v", r.Filesystem.AllowRead, err)
	}
}

func TestLateGrants(t *testing.T) {
	rules := func(allow, deny string) sandbox.FilesystemRules {
		return sandbox.FilesystemRules{AllowRead: []string{"/a"}, AllowWrite: strings.Fields(allow), DenyRead: strings.Fields(deny)}
	}
	tests := []struct {
		name      string
		made, now sandbox.FilesystemRules
		want      []string
	}{
		{"nothing new", rules("/b", "/c"), rules("/b", "/c"), nil},
		{"one more", rules("/b", "/c"), rules("/b /x", "/c"), []string{"/x"}},
		{"in between", rules("/b /d", ""), rules("/b /x /d /y", ""), []string{"/x", "/y"}},
		{"one less", rules("/b /d", ""), rules("/b /x", ""), nil},
		{"another order", rules("/b /d", ""), rules("/d /b", ""), nil},
		{"a pattern", rules("", ""), rules("/x/*", ""), nil},
		{"a pattern without a place", rules("", ""), rules("**/x", ""), nil},
		{"a deny more", rules("", ""), rules("/x", "/x/y"), nil},
		{"a deny less", rules("", "/c"), rules("/x", ""), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			grants, ok := LateGrants(tt.made, tt.now)
			var got []string
			for _, g := range grants {
				if g.Operation != sandbox.OpWrite {
					t.Errorf("%+v", g)
				}
				got = append(got, g.Path)
			}
			if ok != (tt.want != nil) || ok && !slices.Equal(got, tt.want) {
				t.Errorf("%q, %v", got, ok)
			}
		})
	}
}

func TestGrantedHost(t *testing.T) {
	const file = `{"agents": {"defaults": {"sandbox": {"network": {"allowedDomains": ["d.test"]}}}, "list": [
		{"id": "own", "sandbox": {"network": {"allowedDomains": ["o.test"]}}}, {"id": "none", "sandbox": {"mode": "all"}}, {"id": "bare"}]}}`
	tests := []struct {
		agent string
		want  map[string][]string // by agent
	}{
		{"own", map[string][]string{"own": {"o.test", "x.test:443"}, "none": {"d.test"}, "main": {"d.test"}}},
		{"main", map[string][]string{"own": {"o.test"}, "none": {"d.test", "x.test:443"}, "main": {"d.test", "x.test:443"}}},
		{"none", map[string][]string{"own": {"o.test"}, "none": {"d.test"}, "main": {"d.test"}}},
		{"bare", map[string][]string{"own": {"o.test"}, "bare": {"d.test"}, "main": {"d.test"}}},
	}
	for _, tt := range tests {
		s, err := Parse("t", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		got := Granted(s, tt.agent, sandbox.Grant{Operation: sandbox.OpConnect, Path: "x.test:443"})
		for agent, want := range tt.want {
			r, err := Resolve(got, Who{Agent: agent, Session: "s"}, nil)
			if err != nil || !slices.Equal(r.Network.AllowedDomains, want) {
				t.Errorf("for %s: agent %s may reach %q, %v, want %q", tt.agent, agent, r.Network.AllowedDomains, err, want)
			}
		}
	}
}
