package hostscan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// A tree is a folder to scan.
type tree struct {
	t    testing.TB
	root string
	s    *Scanner
}

func newTree(t testing.TB, files ...string) *tree {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &tree{t, root, New(Limits{})}
	for _, f := range files {
		x.file(f)
	}
	return x
}

func (x *tree) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *tree) at(rel string) string { return filepath.Join(x.root, rel) }

// file creates a file, or a folder if rel ends with a slash.
func (x *tree) file(rel string) {
	x.t.Helper()
	if strings.HasSuffix(rel, "/") {
		x.must(os.MkdirAll(x.at(rel), 0o755))
		return
	}
	x.must(os.MkdirAll(filepath.Dir(x.at(rel)), 0o755))
	x.must(os.WriteFile(x.at(rel), []byte(rel), 0o644))
}

func (x *tree) scan(q Request) Result {
	x.t.Helper()
	r, err := x.s.Scan(context.Background(), q)
	x.must(err)
	return r
}

func (x *tree) request(patterns ...string) Request {
	q := Request{Roots: []string{x.root}}
	for _, p := range patterns {
		q.Globs = append(q.Globs, Glob{Pattern: strings.ReplaceAll(p, "ROOT", x.root), Read: true, Rule: p})
	}
	return q
}

// rel returns paths relative to the root, sorted.
func (x *tree) rel(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, strings.TrimPrefix(p, x.root+"/"))
	}
	return out
}

func hits(r Result) []string {
	var out []string
	for _, h := range r.Hits {
		out = append(out, h.Path)
	}
	return out
}

func (x *tree) want(what string, got []string, want ...string) {
	x.t.Helper()
	if got := x.rel(got); !slices.Equal(got, want) {
		x.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestGlobs(t *testing.T) {
	files := []string{
		".env", ".env.local", "a/.env", "a/b/c/.env.prod", "node_modules/x/.env", "a/env", "a/.envrc", ".git/.env",
		"a/credentials.json", "a/Credentials.json", "secrets/one.key", "secrets/sub/two.key", "k/x.pem", "k/y.pub", "dir.env/x",
		"t/.env.example", "t/.env.prod.sample", "t/.env.dist", "t/.env.template", "t/.env.defaults", "t/.env.example.local", "t/.env.xexample", "t/.env.d.example/x",
		"s/secret-1.txt", "s/deep/secret-2.txt", "s/deep/Secret-3.txt", "s/[x]", "s/{y}", "s/a*b", "s/axb", `back\/x`,
	}
	tests := []struct {
		pattern string
		want    []string
	}{
		{"**/.env", []string{".env", ".git/.env", "a/.env", "node_modules/x/.env"}},
		{"**/.env.*", []string{".env.local", "a/b/c/.env.prod", "t/.env.d.example", "t/.env.example.local", "t/.env.xexample"}},
		{"**/.env.example", []string{"t/.env.example"}},
		{"**/.env.e*", []string{"t/.env.example", "t/.env.example.local"}},
		{"**/*.sample", []string{"t/.env.prod.sample"}},
		{"t/*.{dist,template}", []string{"t/.env.dist", "t/.env.template"}},
		{"t/*", []string{"t/.env.d.example", "t/.env.defaults", "t/.env.dist", "t/.env.example", "t/.env.example.local", "t/.env.prod.sample", "t/.env.template", "t/.env.xexample"}},
		{"**/.env{,.*,rc}", []string{".env", ".env.local", ".git/.env", "a/.env", "a/.envrc", "a/b/c/.env.prod", "node_modules/x/.env", "t/.env.d.example", "t/.env.example.local", "t/.env.xexample"}},
		{"**/credentials.json", []string{"a/credentials.json"}},
		{"**/[cC]redentials.json", []string{"a/Credentials.json", "a/credentials.json"}},
		{"**/[!c]redentials.json", []string{"a/Credentials.json"}},
		{"ROOT/secrets/*.key", []string{"secrets/one.key"}},
		{"ROOT/secrets/**/*.key", []string{"secrets/one.key", "secrets/sub/two.key"}},
		{"secrets/*.key", []string{"secrets/one.key"}},
		{"./secrets//*.key", []string{"secrets/one.key"}},
		{"ROOT/secrets/**", []string{"secrets"}},
		{"secrets/", []string{"secrets"}},
		{"**/secrets/**/*.key", []string{"secrets/one.key", "secrets/sub/two.key"}},
		{"ROOT/**/secret-*.txt", []string{"s/deep/secret-2.txt", "s/secret-1.txt"}},
		{"**/?ecret-[0-9].txt", []string{"s/deep/Secret-3.txt", "s/deep/secret-2.txt", "s/secret-1.txt"}},
		{"k/x.p?m", []string{"k/x.pem"}},
		{"**/*.{pem,pub}", []string{"k/x.pem", "k/y.pub"}},
		{"**/{k,a}/{x,env}*", []string{"a/env", "k/x.pem"}},
		{"{k/x,a/}*", []string{"a/.env", "a/.envrc", "a/Credentials.json", "a/b", "a/credentials.json", "a/env", "k/x.pem"}},
		{`s/\[x\]`, []string{"s/[x]"}},
		{`**/\{y\}`, []string{"s/{y}"}},
		{`s/a\*b`, []string{"s/a*b"}},
		{`s\/a\*b`, []string{"s/a*b"}},
		{`back\\/x`, []string{"back\\/x"}},
		{`s/a*b`, []string{"s/a*b", "s/axb"}},
		{"**/dir.env", []string{"dir.env"}},
		{"**/*/one.key", []string{"secrets/one.key"}},
		{"/nowhere/**/.env", nil},
		{"ROOT2/*", nil},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			x := newTree(t, files...)
			x.want("hits", hits(x.scan(x.request(tt.pattern))), tt.want...)
		})
	}
}

func TestBadPatterns(t *testing.T) {
	for _, p := range []string{
		"", "a[", "{a", `a\`, "**", "/", "/**", "a/../b", "[a/b]c", "{[a,b],c}", "x\x00y", strings.Repeat("a", 5000),
		strings.Repeat("{a,b}", 11), "{**,x}",
	} {
		_, err := New(Limits{}).Scan(context.Background(), Request{Globs: []Glob{{Pattern: p}}})
		if sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v, want %s", p, err, sandbox.CodeValidation)
		}
	}
}

func TestRootsAndAbove(t *testing.T) {
	x := newTree(t, "p/.env", "p/q/.env", "vault/x/y", "other/.env")
	q := x.request("**/.env", "**/vault")
	q.Roots = []string{x.at("p/q"), x.at("p"), x.at("vault/x"), x.at("missing"), x.at("p")}
	x.want("hits", hits(x.scan(q)), "p/.env", "p/q/.env", "vault")

	q.Exclude = []string{x.at("p/q")}
	x.want("hits beside what is excluded", hits(x.scan(q)), "p/.env", "vault")

	q.Exclude, q.Denied = nil, []plan.Deny{{Path: x.at("p/q"), Read: true}}
	x.want("hits beside what is denied", hits(x.scan(q)), "p/.env", "vault")
}

func TestKindsAndRules(t *testing.T) {
	x := newTree(t, "f.k", "d.k/")
	x.must(os.Symlink("nowhere", x.at("l.k")))
	x.must(unix.Mkfifo(x.at("p.k"), 0o600))
	socket(t, x.at("s.k"))
	q := Request{Roots: []string{x.root}, Globs: []Glob{
		{Pattern: "**/*.k", Rule: "write"}, {Pattern: "**/f.*", Read: true, Rule: "read"}, {Pattern: "**/f.k", Rule: "again"},
	}}
	want := []struct {
		name string
		kind plan.Kind
		read bool
		rule string
	}{
		{"d.k", plan.Dir, false, "write"}, {"f.k", plan.File, true, "read"}, {"l.k", plan.Link, false, "write"},
		{"p.k", plan.Other, false, "write"}, {"s.k", plan.Socket, false, "write"},
	}
	r := x.scan(q)
	if len(r.Hits) != len(want) {
		t.Fatalf("%+v", r)
	}
	x.want("sockets, as a mount that cannot be written lets connect", r.Sockets, "s.k")
	for i, h := range r.Hits {
		if w := want[i]; h.Path != x.at(w.name) || h.Kind != w.kind || h.Read != w.read || h.Rule != w.rule || h.Ino == 0 || h.Dev == 0 {
			t.Errorf("%+v, want %+v", h, w)
		}
	}
}

// TestClosedForWritingAlone verifies that a scan finds paths closed for reading
// below folders that are closed for writing only, whichever rule closes them.
func TestClosedForWritingAlone(t *testing.T) {
	x := newTree(t, "deploy/.env", "deploy/sub/.env", "deploy/sub/out", "frozen/a/.env", "frozen/vault/.env", "frozen/key/x", "other/.env")
	socket(t, x.at("deploy/sub/s"))
	socket(t, x.at("frozen/s"))
	x.must(os.Link(x.at("other/.env"), x.at("frozen/copy")))
	env := func(q Request) Request {
		q.Globs = append(q.Globs, Glob{Pattern: "**/.env", Read: true, Rule: "env"}, Glob{Pattern: "**/out", Rule: "out"})
		return q
	}
	all := env(Request{
		Roots: []string{x.root}, Globs: []Glob{{Pattern: "**/deploy/**", Rule: "deploy"}},
		Denied: []plan.Deny{
			{Path: x.at("frozen"), Rule: "frozen"}, {Path: x.at("frozen/vault"), Rule: "twice"},
			{Path: x.at("frozen/vault"), Read: true, Rule: "vault"}, {Path: x.at("frozen/key"), Rule: "inner"},
		},
	})
	for range 2 {
		r := x.scan(all)
		x.want("hits", hits(r), "deploy", "deploy/.env", "deploy/sub/.env", "frozen/a/.env", "other/.env")
		x.want("sockets", r.Sockets, "deploy/sub/s", "frozen/s")
		if len(r.Aliases) != 1 || r.Aliases[0].Path != x.at("frozen/copy") || !r.Aliases[0].Read {
			t.Errorf("another name of what must not be read, where nothing can be written: %+v", r.Aliases)
		}
	}
	x.want("hits of a root that is denied", hits(x.scan(env(Request{
		Roots: []string{x.at("frozen")}, Denied: []plan.Deny{{Path: x.at("frozen"), Rule: "frozen"}},
	}))), "frozen/a/.env", "frozen/vault/.env")
	x.want("hits of a root below one", hits(x.scan(env(Request{
		Roots: []string{x.at("deploy/sub")}, Globs: []Glob{{Pattern: "**/deploy", Rule: "deploy"}},
	}))), "deploy", "deploy/sub/.env")
}

// TestNameInTwoDenials verifies that the other names of a file are closed for
// reading if one of the folders that it lies in is.
func TestNameInTwoDenials(t *testing.T) {
	x := newTree(t, "vault/inner/key", "w/x")
	x.must(os.Link(x.at("vault/inner/key"), x.at("w/copy")))
	denied := []plan.Deny{{Path: x.at("vault"), Read: true, Rule: "vault"}, {Path: x.at("vault/inner"), Rule: "inner"}}
	for range 2 {
		r := x.scan(Request{Roots: []string{x.root}, Denied: denied})
		if len(r.Aliases) != 1 || r.Aliases[0].Path != x.at("w/copy") || !r.Aliases[0].Read {
			t.Errorf("%+v", r.Aliases)
		}
		slices.Reverse(denied)
	}
}

func TestSocketsAndFound(t *testing.T) {
	x := newTree(t, "repo/.git/HEAD", "repo/sub/.git", "repo/sub/x", "shut/")
	socket(t, x.at("repo/agent.sock"))
	socket(t, x.at("shut/agent.sock"))
	q := x.request("**/shut")
	q.Find = []string{".git"}
	r := x.scan(q)
	x.want("sockets", r.Sockets, "repo/agent.sock")
	x.want("found", r.Found, "repo/.git", "repo/sub/.git")
	if d := r.Denies(); !slices.Contains(d, plan.Deny{Path: x.at("repo/agent.sock"), Read: true, Rule: RuleSocket}) {
		t.Errorf("denies %+v", d)
	}
}

func socket(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)) // the path of a socket must be short
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: short}); err != nil {
		t.Fatal(err)
	}
}

// TestDeepFolders holds that a folder too deep to be searched is closed for reading, and
// that what matches above it is found.
func TestDeepFolders(t *testing.T) {
	for name, nest := range map[string]string{"many": "x", "long": strings.Repeat("x", nameMax)} {
		t.Run(name, func(t *testing.T) {
			x := newTree(t)
			x.file("plain/.env")
			dir, depth := x.root, 0
			fd, err := unix.Open(dir, unix.O_PATH, 0)
			if err != nil {
				t.Fatal(err)
			}
			for range maxDepth + 3 { // by descriptors: the path gets too long for the kernel
				if err := unix.Mkdirat(fd, nest, 0o755); err != nil {
					t.Fatal(err)
				}
				below, err := unix.Openat(fd, nest, unix.O_PATH, 0)
				unix.Close(fd)
				if err != nil {
					t.Fatal(err)
				}
				fd = below
			}
			unix.Close(fd)
			for depth <= maxDepth && len(dir) <= maxPath {
				dir += "/" + nest
				depth++
			}
			s := New(Limits{})
			for range 2 { // the second scan uses the cache
				r, err := s.Scan(t.Context(), x.request("**/.env"))
				if err != nil || !slices.Equal(r.Unreadable, []string{dir}) || len(r.Hits) != 1 || len(dir) >= unix.PathMax {
					t.Fatalf("%v, %d hits, and %d bytes, not %d, are closed", err, len(r.Hits), len(strings.Join(r.Unreadable, "")), len(dir))
				}
			}
			if _, err := New(Limits{Hits: 1}).Scan(t.Context(), x.request("**/.env")); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("one hit and one closed folder, of which one may be: %v", err)
			}
			for _, read := range []bool{true, false} {
				q := x.request("**/.env")
				q.Denied = append(q.Denied, plan.Deny{Path: x.root + "/" + nest, Read: read})
				if _, err := New(Limits{}).Scan(t.Context(), q); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), "256 deep") {
					t.Errorf("below a denied path, read %v: %v", read, err)
				}
			}
		})
	}
}

func TestBounds(t *testing.T) {
	x := newTree(t)
	for i := range 50 {
		x.file(fmt.Sprintf("d%d/.env", i))
	}
	tests := []struct {
		name string
		l    Limits
		says string // the bound and the place
	}{
		{"entries", Limits{Entries: 99}, "more than 99 files and folders, at \"d"},
		{"hits", Limits{Hits: 49}, "more than 49 files and folders must be closed, at \"d"},
		{"time", Limits{Time: time.Nanosecond}, "takes too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(tt.l)
			for range 2 { // the second scan uses the cache
				_, err := s.Scan(context.Background(), x.request("**/.env"))
				if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), "narrower") || !strings.Contains(err.Error(), tt.says) {
					t.Fatalf("%v, want %s with a hint", err, sandbox.CodeCapabilityBlocked)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New(Limits{}).Scan(ctx, x.request("**/.env")); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("after the end of ctx: %v", err)
	}
}
