package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// reported writes what rules become: "allowRead=/a denyRead=/b notice=…".
func reported(l permrulesLists) string {
	var out []string
	for _, list := range []struct {
		name   string
		values []permrulesValue
	}{
		{"domain", l.AllowedDomains}, {"noDomain", l.DeniedDomains}, {"read", l.AllowRead}, {"noRead", l.DenyRead},
		{"write", l.AllowWrite}, {"noWrite", l.DenyWrite}, {"command", l.AllowCommands}, {"noCommand", l.BlockCommands},
	} {
		for _, v := range list.values {
			out = append(out, list.name+"="+v.Text)
		}
	}
	for _, n := range l.Notices {
		out = append(out, "notice:"+n.Why)
	}
	return strings.Join(out, " ")
}

// TestImport holds each rule as an allow and as a deny. A want that starts
// with "!" is part of an error's message, one with "notice:" part of a notice.
func TestImport(t *testing.T) {
	tests := []struct{ rule, allow, deny string }{
		{"WebFetch(domain:example.com)", "domain=example.com", "noDomain=example.com"},
		{"WebFetch(domain:*.example.com)", "domain=*.example.com", "noDomain=*.example.com"},
		{"WebFetch(domain:10.0.0.0/8)", "domain=10.0.0.0/8", "noDomain=10.0.0.0/8"},
		{"WebFetch", "notice:allowPublic", "noDomain=*"},
		{"WebFetch(domain:*)", "notice:allowPublic", "noDomain=*"},
		{"WebFetch(domain:)", "!is empty", "!is empty"},
		{"WebFetch(domain:a b)", "!no host has", "!no host has"},
		{"WebFetch(https://x)", "notice:names no domain", "!names no domain"},

		{"Read(//etc/x)", "read=/etc/x", "noRead=/etc/x"},
		{"Read(//etc//x/./y/)", "read=/etc/x/y", "noRead=/etc/x/y"},
		{"Read(//srv/**)", "read=/srv", "noRead=/srv"},
		{"Read(//)", "read=/", "!denies every file"},
		{"Read(//**)", "read=/", "!denies every file"},
		{"Read(~/docs/**)", "read=~/docs", "noRead=~/docs"},
		{"Read(~)", "read=~", "noRead=~"},
		{"Read(/docs/a)", "read=/etc/te[a]m/docs/a", "noRead=/etc/te[a]m/docs/a"},
		{"Read(./docs/a)", "notice:workspace", "noRead=docs/a"},
		{"Read(docs/**)", "notice:workspace", "noRead=docs"},
		{"Read(.env)", "notice:workspace", "noRead=**/.env"},
		{"Read(./.env)", "notice:workspace", "noRead=.env"},
		{"Read(*.pem)", "notice:workspace", "noRead=**/*.pem"},
		{"Read(**/*.pem)", "notice:workspace", "noRead=**/*.pem"},
		{"Read(./**)", "notice:workspace", "!means the whole working folder"},
		{"Read(//srv/*.key)", "notice:pattern", "noRead=/srv/*.key"},
		{"Read(//srv/a{b,c})", "notice:pattern", `noRead=/srv/a\{b,c\}`},
		{"Read(//srv/a{b)", "notice:pattern", `noRead=/srv/a\{b`},
		{"Read(a})", "notice:workspace", `noRead=**/a\}`},
		{"Read(//srv/a})", "read=/srv/a}", "noRead=/srv/a}"},
		{"Read(//srv/$x)", "read=/srv/$$x", "noRead=/srv/$$x"},
		{`Read(//srv/a\b)`, "notice:backslash", "!backslash"},
		{"Read(//srv/[)", "notice:no pattern", "!no pattern"},
		{"Read(//srv/../etc)", `notice:".."`, `!".."`},
		{"Read(../x)", `notice:".."`, `!".."`},
		{"Read(~bob/x)", "notice:another user", "!another user"},
		{"Read(!//x)", "notice:takes files out", "!takes files out"},
		{"Read", "notice:every file", "!every file"},
		{"Read(*)", "notice:every file", "!every file"},
		{"Edit(~/src/**)", "write=~/src", "noWrite=~/src"},
		{"Write(//out/x)", "write=/out/x", "noWrite=/out/x"},
		{"NotebookEdit(//out/x)", "write=/out/x", "noWrite=/out/x"},
		{"Edit(.git/hooks/**)", "notice:workspace", "noWrite=.git/hooks"},

		{"Bash(npm run test:*)", "command=npm run test:*", "noCommand=npm run test:*"},
		{`Bash(echo \(x\))`, "command=echo (x)", "noCommand=echo (x)"},
		{"Bash(f (x))", "command=f (x)", "noCommand=f (x)"},
		{"Bash", "notice:every command", "noCommand=*"},
		{"Bash(*)", "notice:every command", "noCommand=*"},

		{"WebSearch", "notice:tool", "!tool"},
		{"mcp__x__y", "notice:tool", "!tool"},
		{"Bash()", "!nothing in its parentheses", "!nothing in its parentheses"},
		{"Bash(x", "!no parenthesis", "!no parenthesis"},
		{"", "!does not start", "!does not start"},
		{"(x)", "!does not start", "!does not start"},
		{"Re ad(x)", "!does not start", "!does not start"},
		{"Read(" + strings.Repeat("a", 5000) + ")", "!too long", "!too long"},
	}
	for _, tt := range tests {
		for _, c := range []struct {
			rules PermissionSettings
			want  string
		}{{PermissionSettings{Allow: []string{tt.rule}}, tt.allow}, {PermissionSettings{Deny: []string{tt.rule}}, tt.deny}} {
			l, err := importPermrules(c.rules, "/etc/team")
			got, want := reported(l), strings.ReplaceAll(c.want, "te[a]m", "team")
			part, failing := strings.CutPrefix(want, "!")
			note, noting := strings.CutPrefix(want, "notice:")
			switch {
			case failing && (err == nil || !strings.Contains(err.Error(), part) || got != ""),
				noting && (err != nil || !strings.HasPrefix(got, "notice:") || !strings.Contains(got, note)),
				!failing && !noting && (err != nil || got != want):
				t.Errorf("%.80v: %s %v, want %s", c.rules, got, err, want)
			}
			var e *sandbox.Error
			if err != nil && (!errors.As(err, &e) || e.Code != sandbox.CodeValidation || !strings.HasSuffix(e.Field, "[0]")) {
				t.Errorf("%.80v: %+v", c.rules, err)
			}
		}
	}
}

// TestFolderOfSettings holds that signs of patterns in the folder's name stay
// what they are.
func TestFolderOfSettings(t *testing.T) {
	l, err := importPermrules(PermissionSettings{Deny: []string{"Read(/x)", "Read(/*.key)", "Read(/c}d)"}}, "/a[b]")
	if got, want := reported(l), `noRead=/a\[b\]/x noRead=/a\[b\]/*.key noRead=/a\[b\]/c\}d`; err != nil || got != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	for _, dir := range []string{"", "relative"} {
		if _, err := importPermrules(PermissionSettings{Deny: []string{"Read(/x)"}}, dir); err == nil || !strings.Contains(err.Error(), "not known") {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

func TestAsk(t *testing.T) {
	allow := []string{"WebFetch(domain:*.a.example)", "WebFetch(domain:b.example:443)", "Edit(~/src)", "Read(//srv)"}
	for rule, fails := range map[string]bool{
		"WebFetch(domain:x.a.example)": true, "WebFetch(domain:a.example)": true, "WebFetch(domain:b.example)": true, "WebFetch(domain:c.example)": false, "WebFetch": true, "WebFetch(domain:10.0.0.0/8)": true,
		"Edit(~/src/x)": true, "Edit(~)": true, "Edit(~/docs)": false, "Edit(//home/u/src)": true, "Edit(//srv/x)": true, "Read(~/src/x)": true, "Read(//srv/x/**)": true, "Read(~/doc*)": true, "Edit(x)": true,
		"Bash(git push:*)": true, "Bash": true, "WebSearch": true,
	} {
		l, err := importPermrules(PermissionSettings{Allow: allow, Ask: []string{rule}}, "")
		if (err != nil) != fails || !fails && (len(l.Notices) != 1 || l.Notices[0].From != "ask[0]") {
			t.Errorf("%s: %+v %v", rule, l.Notices, err)
		}
	}
}

func TestImportTogether(t *testing.T) {
	l, err := importPermrules(PermissionSettings{Allow: []string{"Read(//a)", "WebSearch", "Read(//a/**)", "Edit(//b)"}, Deny: []string{"Read(//c)"}}, "")
	if err != nil || reported(l) != "read=/a noRead=/c write=/b notice:"+l.Notices[0].Why {
		t.Errorf("%s %v", reported(l), err)
	}
	if l.AllowWrite[0].From != "allow[3]" || l.DenyRead[0].From != "deny[0]" || l.Notices[0].From != "allow[1]" || l.Notices[0].Rule != "WebSearch" {
		t.Errorf("%+v", l)
	}
	if _, err := importPermrules(PermissionSettings{Deny: make([]string, 2001)}, ""); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
}

// FuzzImport holds that what rules become is understood by the policies, and
// that a deny is never lost.
func FuzzPermrulesImport(f *testing.F) {
	for _, s := range []string{"Read(~/x/**)", "Edit(//a{b}/[c])", "WebFetch(domain:*.a.b:443)", "Bash(a (b))", "Read(.env)", `Write(/a\*)`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		l, err := importPermrules(PermissionSettings{Deny: []string{rule}}, "/etc/{team}")
		if err == nil && reported(l) == "" {
			t.Fatalf("%q is lost", rule)
		}
		if err != nil && reported(l) != "" {
			t.Fatalf("%q: %s and %v", rule, reported(l), err)
		}
		var denyRead, denyWrite []string
		for _, v := range l.DenyRead {
			denyRead = append(denyRead, strings.ReplaceAll(v.Text, "$$", "$"))
		}
		for _, v := range l.DenyWrite {
			denyWrite = append(denyWrite, strings.ReplaceAll(v.Text, "$$", "$"))
		}
		if _, err := path.New(path.Options{Home: "/home/u", WorkRoots: []string{"/work"}, DenyRead: denyRead, DenyWrite: denyWrite}); err != nil && !elsewhere(err) {
			t.Errorf("%q: %v", rule, err)
		}
		for _, v := range l.DeniedDomains {
			if _, err := network.ParseRule(v.Text); err != nil {
				t.Errorf("%q: %v", rule, err)
			}
		}
		if l, err = importPermrules(PermissionSettings{Allow: []string{rule}}, "/etc/team"); err == nil && reported(l) == "" {
			t.Errorf("%q is lost: %s", rule, fmt.Sprint(l))
		}
	})
}

// elsewhere reports whether a rule names a place that only a process tells,
// such as /dev/fd/3, or no file at all.
func elsewhere(err error) bool { return strings.Contains(err.Error(), "names no file") }
