package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
)

func permission(op sandbox.Operation, path string) sandbox.Grant {
	return sandbox.Grant{Operation: op, Path: path}
}

const commented = `// ours
{
	"agents": { // all of them
		"defaults": {
			"sandbox": {
				"mode": "all", // always
				"filesystem": {
					// what may be written
					"allowWrite": [
						"/data/a", // first
						"/data/b" // second
						/* end of list */
					],
				}, // paths
			},
		},
		"list": [
			{"id": "other", "sandbox": {"scope": "agent"}},
			{"id": "bare"}, // nothing
		],
	},
}
// the end
`

func TestEdit(t *testing.T) {
	tests := []struct {
		name, in, agent string
		grant           sandbox.Grant
		old, new        string // what is replaced in the input; old empty: want is new
	}{
		{"added to a list with comments", commented, "main", permission(sandbox.OpWrite, "/data/c"),
			"\"/data/b\" // second\n", "\"/data/b\", // second\n\t\t\t\t\t\t\"/data/c\"\n"},
		{"a list of its own", commented, "main", permission(sandbox.OpRead, "/data/c"),
			"\t\t\t\t\t],\n", "\t\t\t\t\t],\n\t\t\t\t\t\"allowRead\": [\"/data/c\"],\n"},
		{"there already", commented, "main", permission(sandbox.OpWrite, "/data/a"), "", commented},
		{"an agent with an entry", commented, "other", permission(sandbox.OpWrite, "/data/c"),
			`{"scope": "agent"}`, `{"scope": "agent", "filesystem": {"allowWrite": ["/data/c"]}}`},
		{"an agent with an empty entry", commented, "bare", permission(sandbox.OpWrite, "/data/c"),
			`{"id": "bare"}`, `{"id": "bare", "sandbox": {"filesystem": {"allowWrite": ["/data/c"]}}}`},
		{"what every agent has", commented, "other", permission(sandbox.OpWrite, "/data/a"),
			"", commented},
		{"a host", commented, "main", permission(sandbox.OpConnect, "x.test:443"),
			"\t\t\t\t}, // paths\n", "\t\t\t\t}, // paths\n\t\t\t\t\"network\": {\"allowedDomains\": [\"x.test:443\"]},\n"},
		{"a host for an agent with hosts", `{"agents": {"list": [{"id": "a", "sandbox": {"network": {"allowedDomains": ["a.test"]}}}]}}`, "a", permission(sandbox.OpConnect, "[2001:db8::1]:80"),
			`["a.test"]`, `["a.test", "[2001:db8::1]:80"]`},
		{"a host that is there already", `{"agents": {"defaults": {"sandbox": {"network": {"allowedDomains": ["a.test:1"]}}}}}`, "main", permission(sandbox.OpConnect, "a.test:1"),
			"", `{"agents": {"defaults": {"sandbox": {"network": {"allowedDomains": ["a.test:1"]}}}}}`},
		{"empty object", "{}", "main", permission(sandbox.OpRead, "/x"), "{}", `{"agents": {"defaults": {"sandbox": {"filesystem": {"allowRead": ["/x"]}}}}}`},
		{"empty list", `{"agents": {"defaults": {"sandbox": {"filesystem": {"allowRead": [ /* none */ ]}}}}}`, "main", permission(sandbox.OpRead, "/x"),
			"[ /* none */ ]", `["/x" /* none */ ]`},
		{"on one line", `{"agents": {"defaults": {"sandbox": {"filesystem": {"allowRead": ["/a"]}}}}}`, "main", permission(sandbox.OpRead, "/x"), `["/a"]`, `["/a", "/x"]`},
		{"no file", "", "main", permission(sandbox.OpWrite, "/x"), "",
			"{\n\t\"agents\": {\n\t\t\"defaults\": {\n\t\t\t\"sandbox\": {\n\t\t\t\t\"filesystem\": {\n\t\t\t\t\t\"allowWrite\": [\n\t\t\t\t\t\t\"/x\"\n\t\t\t\t\t]\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n"},
		{"odd characters", "{}", "main", permission(sandbox.OpRead, "/a $b \"c\"<é>"), "{}",
			`{"agents": {"defaults": {"sandbox": {"filesystem": {"allowRead": ["/a $$b \"c\"\u003cé\u003e"]}}}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := editSettingsfile([]byte(tt.in), tt.agent, tt.grant)
			must(t, err)
			want := tt.new
			if tt.old != "" {
				if strings.Count(tt.in, tt.old) != 1 {
					t.Fatalf("%q is not there once", tt.old)
				}
				want = strings.Replace(tt.in, tt.old, tt.new, 1)
			}
			if d := cmp.Diff(want, string(got)); d != "" {
				t.Errorf("edited (-want +got):\n%s", d)
			}
			again, err := editSettingsfile(got, tt.agent, tt.grant)
			if err != nil || string(again) != string(got) {
				t.Errorf("a second time: %s, %v", again, err)
			}
			s, err := Parse("x", got)
			must(t, err)
			r, err := Resolve(s, Who{Agent: tt.agent, Session: "s"}, nil)
			must(t, err)
			list := r.Filesystem.AllowRead
			switch tt.grant.Operation {
			case sandbox.OpWrite:
				list = r.Filesystem.AllowWrite
			case sandbox.OpConnect:
				list = r.Network.AllowedDomains
			}
			if n := strings.Count("\x00"+strings.Join(list, "\x00")+"\x00", "\x00"+strings.ReplaceAll(tt.grant.Path, "$", "$$")+"\x00"); n != 1 {
				t.Errorf("the rule is there %d times in %q", n, list)
			}
		})
	}
}

// TestEditKeepsHostsApart holds that a host which one agent has asked for is
// not permitted to all of them.
func TestEditKeepsHostsApart(t *testing.T) {
	got, err := editSettingsfile([]byte(commented), "other", permission(sandbox.OpConnect, "x.test:443"))
	if sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("it became %s, %v", got, err)
	}
}

func TestEditRefuses(t *testing.T) {
	tests := []struct {
		name, in string
		grant    sandbox.Grant
	}{
		{"no settings", "{", permission(sandbox.OpRead, "/x")},
		{"unknown keys", `{"agent": 1}`, permission(sandbox.OpRead, "/x")},
		{"null in the way", `{"agents": {"defaults": null}}`, permission(sandbox.OpRead, "/x")},
		{"everything", "{}", permission(sandbox.OpRead, "/")},
		{"relative", "{}", permission(sandbox.OpRead, "x")},
		{"home", "{}", permission(sandbox.OpRead, "~/x")},
		{"not clean", "{}", permission(sandbox.OpRead, "/x/../y")},
		{"pattern", "{}", permission(sandbox.OpRead, "/x/*")},
		{"class", "{}", permission(sandbox.OpRead, "/x/[a]")},
		{"no text", "{}", permission(sandbox.OpRead, "/x\xff")},
		{"control characters", "{}", permission(sandbox.OpRead, "/x\ny")},
		{"a host", "{}", permission(sandbox.OpConnect, "/x")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := editSettingsfile([]byte(tt.in), "main", tt.grant); err == nil {
				t.Errorf("it became %s", got)
			} else if c := sandbox.CodeOf(err); c != sandbox.CodeValidation {
				t.Errorf("code %s: %v", c, err)
			}
		})
	}
}

// FuzzEdit holds that whatever a file and a path look like, an edit gives a
// valid file that still has every comment.
func FuzzEdit(f *testing.F) {
	f.Add(commented, "main", "/data/c", true)
	f.Add("{ /*a*/ \"agents\" /*b*/ : /*c*/ { /*d*/ } /*e*/ , /*f*/ } //g", "main", "/x", false)
	f.Add(`{"agents":{"list":[{"id":"main","sandbox":{"filesystem":{"allowRead":["/a"/*b*/,/*c*/]}}}]}}`, "main", "/x", false)
	f.Fuzz(func(t *testing.T, in, agent, path string, write bool) {
		op := sandbox.OpRead
		if write {
			op = sandbox.OpWrite
		}
		got, err := editSettingsfile([]byte(in), agent, permission(op, path))
		if err != nil {
			return
		}
		if _, err := Parse("x", got); err != nil {
			t.Fatalf("%q became %q: %v", in, got, err)
		}
		if a, b := strings.Count(in, "*/")+strings.Count(in, "//"), strings.Count(string(got), "*/")+strings.Count(string(got), "//"); b < a {
			t.Fatalf("a comment is gone: %q became %q", in, got)
		}
	})
}
