package plan

import (
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	sandbox "github.com/bulkhead-dev/sandbox"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

var update = flag.Bool("update", false, "write the golden files anew")

func typical() Rules {
	return Rules{
		Tag:      "sandbox-1234abcd",
		Readable: []string{"/Users/ann/agents/researcher", "/opt/tools"},
		Writable: []string{"/Users/ann/work"},
		Tmp:      []string{"/private/tmp/sbx-1"},
		Denies: []SeatbeltDeny{
			{Path: "/Users/ann/.ssh", Read: true}, {Path: "/Users/ann/work/.git/hooks"}, {Path: "/Users/ann/work/.git/config"},
			{Path: "/Users/ann/work/caf\u00e9", Read: true},
		},
		Globs: []Glob{
			{Pattern: "**/.env", Read: true}, {Pattern: "**/.env.*", Read: true}, {Pattern: "**/{credentials,secrets}.json", Read: true}, {Pattern: "/data/**/secret-?.txt", Read: true}, {Pattern: "keys/[a-c]*"},
		},
		Sockets: []string{"/private/var/run/agent.sock"},
	}
}

func TestGolden(t *testing.T) {
	tests := map[string]Rules{
		"typical": typical(),
		"least":   {Tag: "t", Writable: []string{"/w"}},
		"everything readable": {Tag: "t", Readable: []string{"/"}, Writable: []string{"/w"}, Denies: []SeatbeltDeny{{Path: "/Users/ann/.ssh", Read: true}},
			Sockets: []string{"/Users/ann/.SSH/agent"}},
		"proxy": {Tag: "t", Writable: []string{"/w"}, Tmp: []string{"/s/tmp/a"}, Ports: []int{50123, 50122, 50123},
			Denies: []SeatbeltDeny{{Path: "/s", Read: true, Except: []string{"/s/tmp/a"}}}},
		"listening": {Tag: "t", Writable: []string{"/w"}, Listen: true},
		"hostile names": {Tag: "t", Writable: []string{"/w"}, Denies: []SeatbeltDeny{
			{Path: `/w/") (allow default) ("`, Read: true}, {Path: `/w/back\`, Read: true}, {Path: "/w/new\nline"}, {Path: `/w/#"raw"#`}, {Path: "/w/\xff\xfe", Read: true},
		}},
	}
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Profile(r)
			if err != nil {
				t.Fatal(err)
			}
			file := "testdata/" + strings.ReplaceAll(name, " ", "-") + ".sb"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func TestSeatbeltRefused(t *testing.T) {
	tests := map[string]Rules{
		"no tag":        {},
		"tag of signs":  {Tag: `t") (allow default`},
		"long tag":      {Tag: strings.Repeat("t", 65)},
		"relative path": {Tag: "t", Readable: []string{"w"}},
		"dots":          {Tag: "t", Writable: []string{"/w/../x"}},
		"NUL":           {Tag: "t", Tmp: []string{"/w\x00"}},
		"slash":         {Tag: "t", Denies: []SeatbeltDeny{{Path: "/w/", Read: true}}},
		"socket":        {Tag: "t", Sockets: []string{""}},
		"everything":    {Tag: "t", Denies: []SeatbeltDeny{{Path: "/"}}},
		"port":          {Tag: "t", Ports: []int{0}},
		"large port":    {Tag: "t", Ports: []int{65536}},
		"exception":     {Tag: "t", Denies: []SeatbeltDeny{{Path: "/w", Except: []string{"x"}}}},
		"bad pattern":   {Tag: "t", Globs: []Glob{{Pattern: "[", Read: true}}},
	}
	for name, r := range tests {
		if p, err := Profile(r); sandbox.CodeOf(err) != sandbox.CodeValidation || p != "" {
			t.Errorf("%s: %v", name, err)
		}
		if j, err := NewJudge(r); r.Tag == "t" && (sandbox.CodeOf(err) != sandbox.CodeValidation || j != nil) {
			t.Errorf("judge of %s: %v", name, err)
		}
	}
	for _, command := range [][]string{nil, {""}, {"true"}, {"-x"}} {
		if _, err := SeatbeltArgs("", command); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("command %q: %v", command, err)
		}
	}
	if _, err := SeatbeltArgs(strings.Repeat(" ", maxProfile+1), []string{"/bin/true"}); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("long profile: %v", err)
	}
	if got, err := SeatbeltArgs("(p)", []string{"/bin/echo", "-p", "x"}); err != nil || !slices.Equal(got, []string{Exec, "-p", "(p)", "/bin/echo", "-p", "x"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOrder verifies that no allow follows the first deny of the policy.
func TestOrder(t *testing.T) {
	p, err := Profile(typical())
	if err != nil {
		t.Fatal(err)
	}
	if i, j := strings.Index(p, "(deny file-"), strings.LastIndex(p, "(allow "); i < 0 || i < j {
		t.Errorf("a deny at %d, an allow at %d", i, j)
	}
}

// TestOpens verifies what stays open inside denies: the last matching rule
// decides, and the deeper of deny and open comes last.
func TestOpens(t *testing.T) {
	p, err := Profile(Rules{
		Tag: "t", Writable: []string{"/w"},
		Denies: []SeatbeltDeny{{Path: "/w/a", Read: true}, {Path: "/w/a/b/c", Read: true}, {Path: "/w/k", Read: true}, {Path: "/w/z", Read: true}, {Path: "/w/a/b/fixed"}},
		Globs:  []Glob{{Pattern: "**/.env", Read: true}}, Yields: []string{"/w/a", "/w/a/b/c", "/w/z"},
		Opens: []Open{{Path: "/w/a/b/c/d", Read: true, Write: true}, {Path: "/w/a/b", Read: true, Write: false}, {Path: "/w/a/b/e", Read: false, Write: true}, {Path: "/w/k/x", Read: true, Write: true}, {Path: "/w/z/1", Read: true, Write: false}, {Path: "/w/a/n", Read: false, Write: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/w/f": "rw", "/w/a": "", "/w/a/f": "", "/w/a/b": "r", "/w/a/b/f": "r", "/w/a/b/c": "", "/w/a/b/c/f": "", "/w/a/b/c/d/f": "rw", "/w/a/b/e/f": "rw",
		"/w/a/b/.env": "", "/w/a/b/fixed/f": "r", "/w/k/x/f": "", "/w/z/f": "", "/w/z/1/f": "r", "/w/a/n/f": "",
	} {
		got := ""
		for _, op := range []string{"r", "w"} {
			if lets(t, p, map[string]string{"r": "file-read*", "w": "file-write*"}[op], path) {
				got += op
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

// lets reports whether the profile allows op at p: the last matching rule
// decides.
func lets(t *testing.T, profile, op, p string) bool {
	t.Helper()
	allowed := false
	for _, e := range readProfile(t, profile) {
		about := slices.ContainsFunc(e.list, func(x expr) bool { return x.atom == op })
		if about && slices.ContainsFunc(e.list, func(f expr) bool { return f.matches(p) }) {
			allowed = e.list[0].atom == "allow"
		}
	}
	return allowed
}

// closes reports whether the profile denies op at p, by the test's own
// evaluation of filters.
func closes(t *testing.T, profile, op, p string) bool {
	t.Helper()
	for _, e := range readProfile(t, profile) {
		if e.list[0].atom != "deny" || !slices.ContainsFunc(e.list, func(x expr) bool { return x.atom == op }) {
			continue
		}
		if slices.ContainsFunc(e.list, func(f expr) bool { return f.matches(p) }) {
			return true
		}
	}
	return false
}

// matches reports whether a filter matches p.
func (e expr) matches(p string) bool {
	if len(e.list) < 2 {
		return false
	}
	switch arg := e.list[1].text; e.list[0].atom {
	case "subpath":
		return p == arg || strings.HasPrefix(p, arg+"/")
	case "regex":
		return regexp.MustCompile("(?s)" + arg).MatchString(p)
	case "require-not":
		return !e.list[1].matches(p)
	case "require-all":
		return !slices.ContainsFunc(e.list[1:], func(f expr) bool { return f.list[0].atom == "vnode-type" || !f.matches(p) })
	}
	return false
}

func TestDenies(t *testing.T) {
	p, err := Profile(typical())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		op, path string
		want     bool
	}{
		{"file-read*", "/Users/ann/.ssh", true}, {"file-write*", "/Users/ann/.ssh/id", true}, {"file-read*", "/Users/ann/.SSH/id", true},
		{"file-read*", "/Users/ann/.sshx", false}, {"file-read*", "/Users/ann/xssh", false},
		{"file-read*", "/Users/ann/work/.git/hooks/x", false}, {"file-write*", "/Users/ann/work/.git/Hooks/x", true},
		{"file-read*", "/Users/ann/work/cafe\u0301/x", true}, {"file-read*", "/Users/ann/work/caf\u00e9", true},
		{"file-read*", "/x/.env", true}, {"file-read*", "/.env", true}, {"file-read*", "/x/.ENV/y", true}, {"file-read*", "/x/y.env", false},
		{"file-read*", "/x/.env.local", true}, {"file-read*", "/x/.env.", true}, {"file-read*", "/x/.envrc", false},
		{"file-read*", "/x/.env.example", false}, {"file-write*", "/x/.Env.a.Sample", false}, {"file-read*", "/x/.env.aexample", true},
		{"file-read*", "/x/.env.example.local", true}, {"file-read*", "/x/.env.example/y", true},
		{"file-write*", "/a/b/secrets.json", true}, {"file-write*", "/a/b/secretsxjson", false},
		{"file-read*", "/data/secret-1.txt", true}, {"file-read*", "/data/a/b/secret-\u00e9.txt", true}, {"file-read*", "/data/a/secret-12.txt", false},
		{"file-write*", "/Users/ann/work/keys/bx", true}, {"file-write*", "/opt/tools/keys/C", true}, {"file-write*", "/keys/b", false},
		{"file-write*", "/Users/ann/work/keys/d", false},
		{"file-write-unlink", "/Users/ann/work/.git", true}, {"file-write-unlink", "/Users", true}, {"file-write-unlink", "/Users/ann/work/keys", true},
		{"file-write-unlink", "/data", true}, {"file-write-unlink", "/Users/ann/work/src", false},
	}
	for _, tt := range tests {
		if got := closes(t, p, tt.op, tt.path); got != tt.want {
			t.Errorf("%s %s: closed %v", tt.op, tt.path, got)
		}
	}
}

// FuzzGlob verifies that the expression of a glob matches every path that
// doublestar matches, and what lies below it.
func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{
		{"**/.env.*", "/a/.env.x"}, {"/a/**/b?[a-c]", "/a/b\u00e9c"}, {"/{x,y}/[!z]*", "/x/\xff"}, {`/a\*b/**`, "/a*b"}, {"/[ -~]", "/!"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 40 || len(name) > 40 || !strings.HasPrefix(name, "/") || name == "/" || path.Clean(name) != name || !utf8.ValidString(name) || !utf8.ValidString(glob) || strings.ContainsAny(glob, "\ufffd\x00") ||
			!strings.HasPrefix(glob, "/") && !strings.HasPrefix(glob, "**/") || strings.Contains(glob, "//") || strings.Contains(glob, "/.") {
			return
		}
		p, err := Profile(Rules{Tag: "t", Globs: []Glob{{Pattern: glob, Read: true}}})
		if err != nil {
			return
		}
		matched := doublestar.MatchUnvalidated(glob, name)
		if !strings.HasPrefix(glob, "/") {
			matched = doublestar.MatchUnvalidated(glob, name[1:])
		}
		segments := strings.Split(glob, "/")
		if !strings.Contains(glob, `\/`) && matched && !policypath.SparesTemplates(segments[len(segments)-1]) {
			for _, q := range []string{name, name + "/below", strings.ToUpper(name)} {
				if strings.ToUpper(name) == q && len(q) != len(name) {
					continue
				}
				if !closes(t, p, "file-read*", q) {
					t.Errorf("%q matches %q and does not close %q:\n%s", glob, name, q, p[strings.LastIndex(p, "(deny file-read"):])
				}
			}
		}
	})
}

// FuzzProfile verifies that no path escapes from its string: the profile has
// the same shape as one with harmless paths, and its strings return the paths.
func FuzzProfile(f *testing.F) {
	for _, s := range []string{`/a"b`, `/a\`, "/a\nb", `/a#"b"`, "/a\x01\x7f", "/a;b", `/a\x22)(allow default)`, "/a\r", "/\u00e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		rules := func(p string) Rules {
			return Rules{Tag: "t", Readable: []string{p + "r"}, Writable: []string{p + "w"}, Denies: []SeatbeltDeny{{Path: p + "d", Read: true}, {Path: p + "e"}}, Sockets: []string{p + "s"}}
		}
		got, err := Profile(rules(p))
		if err != nil {
			return
		}
		depth := strings.Repeat("/x", strings.Count(p, "/"))
		if depth == "" || strings.HasSuffix(p, "/") {
			return
		}
		want, err := Profile(rules(depth))
		if err != nil {
			t.Fatal(err)
		}
		a, b := readProfile(t, got), readProfile(t, want)
		if sa, sb := shape(a), shape(b); sa != sb {
			t.Errorf("%q gives the shape\n%s\nwant\n%s", p, sa, sb)
		}
		var texts []string
		for _, e := range a {
			texts = e.texts(texts)
		}
		for _, end := range []string{"r", "w", "d", "e", "s"} {
			if !slices.Contains(texts, p+end) {
				t.Errorf("%q is not among the strings of the profile: %q", p+end, fmt.Sprint(texts))
			}
		}
	})
}
