package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func searchMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func searchFiles(t testing.TB, content map[string]string) (sandbox.Files, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		searchMust(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		searchMust(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	root, err := os.OpenRoot(dir)
	searchMust(t, err)
	t.Cleanup(func() { root.Close() })
	return fsbridge.NewHostFiles(root, "/workspace"), dir
}

// found runs a search and writes its lines as grep does.
func found(t testing.TB, f sandbox.Files, pattern string, q searchQuery) ([]string, schema.Searched) {
	t.Helper()
	var err error
	q.Match, err = compileSearch(pattern, false, false)
	searchMust(t, err)
	if q.Root == "" {
		q.Root = "."
	}
	var out []string
	tally, err := runSearch(t.Context(), f, q, func(l searchLine) bool {
		sign := "-"
		if l.Hit {
			sign = ":"
		}
		out = append(out, fmt.Sprintf("%s%s%d%s%s", strings.TrimPrefix(l.Path, "./"), sign, l.Number, sign, l.Text))
		return true
	})
	searchMust(t, err)
	return out, tally
}

func TestRun(t *testing.T) {
	f, dir := searchFiles(t, map[string]string{
		"a.go": "one\ntwo\r\nthree\nfour\nfive", "b/c.go": "two\ntwo\n", "b/d.txt": "two\n", ".git/x": "two\n", "bin": "two\x00", "empty": "", "é.go": "zwei two\n",
	})
	searchMust(t, os.Symlink(filepath.Join(dir, "a.go"), filepath.Join(dir, "link.go")))
	searchMust(t, os.Symlink("b", filepath.Join(dir, "dirlink")))
	for _, tt := range []struct {
		name, pattern string
		q             searchQuery
		want          string
	}{
		{"everything but links, binary files and .git", "two", searchQuery{}, "a.go:2:two|b/c.go:1:two|b/c.go:2:two|b/d.txt:1:two|é.go:1:zwei two"},
		{"the end of a line", "^two$", searchQuery{Glob: "a.*"}, "a.go:2:two"},
		{"a last line without newline", "five", searchQuery{}, "a.go:5:five"},
		{"lines around", "three", searchQuery{Context: 1}, "a.go-2-two|a.go:3:three|a.go-4-four"},
		{"matches next to each other", "two", searchQuery{Context: 2, Root: "b/c.go"}, "b/c.go:1:two|b/c.go:2:two"},
		{"one of each file", "two", searchQuery{First: true, Root: "b"}, "b/c.go:1:two|b/d.txt:1:two"},
		{"names", "two", searchQuery{Glob: "*.txt"}, "b/d.txt:1:two"},
		{"paths", "two", searchQuery{Glob: "b/*.go"}, "b/c.go:1:two|b/c.go:2:two"},
		{"paths from below", "two", searchQuery{Glob: "**/c.*", Root: "b"}, "b/c.go:1:two|b/c.go:2:two"},
		{"a file, whatever the glob", "two", searchQuery{Glob: "*.rs", Root: "b/d.txt"}, "b/d.txt:1:two"},
		{"below .git if it is named", "two", searchQuery{Root: ".git"}, ".git/x:1:two"},
		{"nothing", "six", searchQuery{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := found(t, f, tt.pattern, tt.q)
			if s := strings.Join(got, "|"); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
	_, tally := found(t, f, "two", searchQuery{})
	if tally.Binary != 1 || tally.Repository != 1 || tally.Files != 5 || tally.Bytes == 0 || tally.Unreadable != 0 {
		t.Errorf("%+v", tally)
	}
}

func TestRunEnds(t *testing.T) {
	f, _ := searchFiles(t, map[string]string{"a": "x\nx\nx\n", "b": "x\n"})
	re, err := compileSearch("x", true, false)
	searchMust(t, err)
	n := 0
	_, err = runSearch(t.Context(), f, searchQuery{Match: re, Root: "."}, func(searchLine) bool { n++; return n < 2 })
	if err != nil || n != 2 {
		t.Errorf("%d lines, %v", n, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	_, err = runSearch(ctx, f, searchQuery{Match: re, Root: "."}, func(searchLine) bool { cancel(why); return true })
	if !errors.Is(err, why) {
		t.Errorf("after a cancel: %v", err)
	}
	if _, err = runSearch(t.Context(), f, searchQuery{Match: re, Root: "none"}, nil); !sandbox.IsNotFound(err) {
		t.Errorf("nothing there: %v", err)
	}
	if _, err = runSearch(t.Context(), f, searchQuery{Match: re, Root: ".", Glob: "["}, nil); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a bad glob: %v", err)
	}
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("a", maxLine)
	f, _ := searchFiles(t, map[string]string{"a": long + "needle\nneedle\n"})
	got, tally := found(t, f, "needle", searchQuery{})
	if len(got) != 1 || !strings.HasPrefix(got[0], "a:2:") || tally.Partial != 1 {
		t.Errorf("%d lines, %+v", len(got), tally)
	}
	got, tally = found(t, f, "^aaaa", searchQuery{Context: 1})
	if len(got) != 2 || tally.Partial != 1 {
		t.Errorf("%d lines, %+v", len(got), tally)
	}
}

func TestCompile(t *testing.T) {
	for _, tt := range []struct {
		pattern             string
		literal, ignoreCase bool
		text                string
		want                bool
	}{
		{"a.c", false, false, "abc", true}, {"a.c", true, false, "abc", false}, {"A.C", true, true, "xa.cx", true}, {"(", true, false, "(", true},
	} {
		re, err := compileSearch(tt.pattern, tt.literal, tt.ignoreCase)
		searchMust(t, err)
		if re.MatchString(tt.text) != tt.want {
			t.Errorf("%+v", tt)
		}
	}
	for _, bad := range []string{"(", "a{2000}", `\1`, "(?<=x)", strings.Repeat("(a{1000}){1000}", 3)} {
		if _, err := compileSearch(bad, false, false); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
