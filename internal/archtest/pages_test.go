package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// How long a page of docs and README.md may be, in bytes.
const (
	maxPage   = 12 << 10
	maxReadme = 10 << 10
)

// TestPages checks that every page in docs says first what its reader can do
// after reading it, is no longer than maxPage, and that each relative link of
// the pages and of the files at the top leads to a file, and to a heading of
// it where it names one. README.md is no longer than maxReadme and links to
// every page.
func TestPages(t *testing.T) {
	t.Parallel()
	top, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 15 || len(top) < 4 {
		t.Fatalf("%d pages and %d files at the top, %v", len(pages), len(top), err)
	}
	for _, path := range pages {
		text := readText(t, path)
		if len(text) > maxPage {
			t.Errorf("%s has %d bytes, want %d at most", path, len(text), maxPage)
		}
		if !opens.MatchString(text) {
			t.Errorf("%s does not begin with what its reader can do: After this page you …", path)
		}
	}
	readme := readText(t, "../../README.md")
	if len(readme) > maxReadme {
		t.Errorf("README.md has %d bytes, want %d at most", len(readme), maxReadme)
	}
	for _, path := range pages {
		if !strings.Contains(readme, "](docs/"+filepath.Base(path)) {
			t.Errorf("README.md does not link to docs/%s", filepath.Base(path))
		}
	}
	links := 0
	for _, path := range append(top, pages...) {
		for _, link := range linksOf(readText(t, path)) {
			links++
			if why := broken(t, path, link); why != "" {
				t.Errorf("%s: the link %s leads nowhere: %s", path, link, why)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// TestNamedPages checks that each page of docs that a program, a script or the
// Makefile names is there. The sources of file tests name pages of their own.
func TestNamedPages(t *testing.T) {
	t.Parallel()
	names := 0
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		switch name := e.Name(); {
		case err != nil:
			return err
		case e.IsDir() && (name == ".git" || name == "bin" || name == "node_modules" || name == "testdata" || name == "fstests"):
			return filepath.SkipDir
		case e.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		case filepath.Ext(name) != ".go" && filepath.Ext(name) != ".sh" && name != "Makefile":
			return nil
		}
		for _, page := range named.FindAllString(readText(t, path), -1) {
			names++
			if _, err := os.Stat("../../" + page); err != nil {
				t.Errorf("%s names %s, which is not there", path, page)
			}
		}
		return nil
	})
	if err != nil || names < 5 {
		t.Errorf("%d names of pages were found, %v", names, err)
	}
}

// TestLinks checks what TestPages takes for a link and for a heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "a.md")
	text := "# A `b` page, of c's\n\n[x](b.md) [y](https://example.com) [z](#d)\n```sh\n# no heading\n[w](none.md)\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(linksOf(text), " "); got != "b.md #d" {
		t.Errorf("links: %s", got)
	}
	for link, leads := range map[string]bool{"#a-b-page-of-cs": true, "a.md#a-b-page-of-cs": true, "a.md": true, "#no-heading": false, "b.md": false, "#d": false} {
		if why := broken(t, page, link); (why == "") != leads {
			t.Errorf("%s: %q", link, why)
		}
	}
}

var (
	opens   = regexp.MustCompile(`^# [^\n]+\n\nAfter (reading )?this page,? you`)
	named   = regexp.MustCompile(`\bdocs/[A-Za-z-]+\.md`)
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// linksOf returns the relative links of a page.
func linksOf(page string) (out []string) {
	for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		if !strings.Contains(m[1], ":") {
			out = append(out, m[1])
		}
	}
	return out
}

// broken says why a link of a page leads nowhere; empty if it leads somewhere.
func broken(t *testing.T, page, link string) string {
	t.Helper()
	name, anchor, _ := strings.Cut(link, "#")
	target := page
	if name != "" {
		target = filepath.Join(filepath.Dir(page), name)
		if _, err := os.Stat(target); err != nil {
			return err.Error()
		}
	}
	if anchor == "" {
		return ""
	}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(readText(t, target), ""), -1) {
		if strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return ""
		}
	}
	return "no heading makes #" + anchor
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
