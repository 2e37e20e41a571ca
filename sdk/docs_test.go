package sdk_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// lines returns the lines of a text that are not empty, without their margins.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// TestDocs holds that the Go of docs/sdk.md is that of the examples and tests of
// this package, that its first program is short, and that the page is.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 12<<10 {
		t.Errorf("docs/sdk.md has %d bytes, and at most 12 KiB", len(page))
	}
	var all string
	files, _ := filepath.Glob("*_test.go")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all += "\n" + strings.Join(lines(string(b)), "\n") + "\n"
	}
	blocks := goBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Fatalf("docs/sdk.md has %d blocks of Go", len(blocks))
	}
	for n, b := range blocks {
		text := b[1]
		if head, body, ok := strings.Cut(text, "func main() {\n"); ok {
			want := []string{"package main", "import (", `"context"`, `"fmt"`, `"github.com/bulkhead-dev/sandbox/sdk"`, ")"}
			if got := lines(head); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("the first program begins with %q, want %q", got, want)
			}
			text = strings.TrimSuffix(strings.TrimSpace(body), "}")
			if got := len(lines(text)); got > 12 {
				t.Errorf("the first program has %d lines", got)
			}
		} else if n == 0 {
			t.Error("the first block is no program")
		}
		if !strings.Contains(all, "\n"+strings.Join(lines(text), "\n")+"\n") {
			t.Errorf("block %d is no part of a test:\n%s", n+1, text)
		}
	}
}
