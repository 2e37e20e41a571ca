package hostscan

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

func TestOddNames(t *testing.T) {
	names := []string{
		"new\nline", "\xff\xfe", "a\\b", `"quo'te"`, "-rf", " ", "\x01", "*", "[", "{a,b}", "é", strings.Repeat("n", 255), "...",
	}
	x := newTree(t)
	var want []string
	for _, n := range names {
		x.file(n + "/.env")
		want = append(want, n+"/.env")
	}
	slices.Sort(want)
	x.want("hits", hits(x.scan(x.request("**/.env"))), want...)

	x = newTree(t)
	for _, n := range names {
		x.file(n)
	}
	slices.Sort(names)
	x.want("hits", hits(x.scan(x.request("*"))), names...)
}

// TestRootWithSpecialCharacters verifies that a root's name is not a pattern.
func TestRootWithSpecialCharacters(t *testing.T) {
	x := newTree(t, "[ab]*{c}/k/x.key", "a/k/x.key")
	q := x.request("k/*.key")
	q.Roots = []string{x.at("[ab]*{c}")}
	x.want("hits", hits(x.scan(q)), "[ab]*{c}/k/x.key")
}

func TestLinks(t *testing.T) {
	x := newTree(t, "p/.env", "p/real/secret", "p/store/prod.env", "outside/.env", "p/sub/")
	for name, to := range map[string]string{
		"p/out": x.at("outside"), "p/up": "..", "p/self": ".", // folders that a scan does not enter
		"p/sub/.env": "../store/prod.env", "p/store/.env": "../real", "p/real/.env": x.at("outside/.env"),
		"p/self.env": "../p", "p/top.env": "/", "p/loop.env": "loop.env", "p/usr.env": "/usr", "p/gone.env": "sub/later",
	} {
		x.must(os.Symlink(to, x.at(name)))
	}
	q := x.request("**/.env", "**/*.env")
	q.Roots = []string{x.at("p")}
	r := x.scan(q)
	var got []string
	for _, h := range r.Hits {
		got = append(got, fmt.Sprint(x.rel([]string{h.Path, h.To})))
	}
	want := []string{
		"[p/.env ]", "[p/gone.env p/sub/later]", "[p/loop.env ]", "[p/real/.env ]", "[p/self.env ]", "[p/store/.env p/real]",
		"[p/store/prod.env ]", "[p/sub/.env p/store/prod.env]", "[p/top.env ]", "[p/usr.env ]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("hits %q, want %q", got, want)
	}
	if !slices.ContainsFunc(r.Denies(), func(d plan.Deny) bool { return d.Path == x.at("p/real") && d.Read }) {
		t.Errorf("where a link leads is not closed: %+v", r.Denies())
	}
	x.must(os.WriteFile(x.at("p/sub/later"), nil, 0o644))
	if x.scan(q).Same(r) {
		t.Error("a link that leads somewhere by now is the same as one that leads nowhere")
	}
	x.must(os.Link(x.at("p/real/secret"), x.at("p/sub/copy")))
	if r := x.scan(q); len(r.Aliases) != 1 || r.Aliases[0].Path != x.at("p/sub/copy") {
		t.Errorf("a hard link to what a link leads to: %+v", r.Aliases)
	}
}

// TestFoldersExchangedDuringTheWalk verifies that a scan never leaves its root
// while another goroutine keeps replacing a folder by a link to another folder.
func TestFoldersExchangedDuringTheWalk(t *testing.T) {
	x := newTree(t, "root/real/a/b/x", "outside/a/b/.env", "outside/.env", "root/other/.env")
	x.must(os.Symlink("../outside", x.at("link")))
	x.must(os.Rename(x.at("link"), x.at("root/link")))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, x.at("root/real"), unix.AT_FDCWD, x.at("root/link"), unix.RENAME_EXCHANGE)
			}
		}
	})
	q := x.request("**/.env")
	q.Roots = []string{x.at("root")}
	for i := range 2000 {
		if i%2 == 0 {
			x.s = New(Limits{})
		}
		r, err := x.s.Scan(context.Background(), q)
		if err != nil || !slices.Contains(hits(r), x.at("root/other/.env")) || len(r.Hits) != 1 {
			t.Errorf("round %d: %v %q", i, err, hits(r))
			break
		}
	}
	close(stop)
	wg.Wait()
}

func TestFoldedNames(t *testing.T) {
	m, err := compile([]Glob{{Pattern: "**/.Env"}, {Pattern: "/Data/**/k*.PEM"}, {Pattern: "**/[A-C]x"}}, nil, []string{".git"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		dir, name   string
		fold, match bool
	}{
		{"/w", ".env", false, false}, {"/w", ".Env", false, true}, {"/w", ".env", true, true}, {"/w", ".ENV", true, true},
		{"/data/x", "Key.pem", true, true}, {"/data/x", "Key.pem", false, false}, {"/datax", "key.pem", true, false},
		{"/w", "bX", true, true}, {"/w", "dX", true, false}, {"/data", "\u212Aey.pem", true, true}, // the Kelvin sign
		{"/w", "\xff", true, false},
	}
	for _, tt := range tests {
		if glob, _ := m.matches(tt.dir, []byte(tt.name), false, tt.fold); glob >= 0 != tt.match {
			t.Errorf("%s/%s with fold %v: match %v", tt.dir, tt.name, tt.fold, !tt.match)
		}
	}
	if !m.finds([]byte(".GIT"), true) || m.finds([]byte(".GIT"), false) {
		t.Error("names that are looked for do not fold with the folder")
	}
}

// FuzzMatch compares the matcher, which tests the last segment first and
// expands braces, with doublestar on the whole path.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{"**/.env", "a/b/.env"}, {"**/.env.*", ".env.x"}, {"**/{a,b{c,d}}*/x?", "q/bdz/xy"}, {"**/[!a-c]*.k", "d.k"},
		{`**/\[x\]`, "[x]"}, {"**/a/**/b", "a/b"}, {"**/x**", "xyz"}, {"**/\xff?", "\xffa"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 64 || len(name) > 64 || strings.Contains(name, "\x00") || name == "" || !strings.HasPrefix(pattern, "**/") ||
			filepath.Clean("/"+name) != "/"+name || bytes.ContainsAny([]byte(pattern), "\xff\ufffd") || strings.Contains(pattern, "/.") ||
			strings.Contains(pattern, `\/`) {
			return
		}
		m, err := compile([]Glob{{Pattern: pattern}}, nil, nil)
		if err != nil {
			return
		}
		pattern = strings.TrimRight(pattern, "/")
		if strings.Contains(pattern, "//") || strings.HasSuffix(pattern, "/**") {
			return // another syntax here
		}
		dir, base := filepath.Split("/" + name)
		got, _ := m.matches(filepath.Clean(dir), []byte(base), true, false)
		if want := doublestar.MatchUnvalidated(pattern, name); want && got < 0 {
			t.Errorf("%q does not match %q, as doublestar says", pattern, name)
		} else if !want && got >= 0 && !strings.Contains(pattern, "{") { // "{x/}" means "x" here
			t.Errorf("%q matches %q, unlike doublestar", pattern, name)
		}
	})
}
