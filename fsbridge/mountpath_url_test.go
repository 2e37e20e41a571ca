package fsbridge_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func TestFromURL(t *testing.T) {
	for name, want := range map[string]string{
		"file:///workspace/a%20b.txt":    "/workspace/a b.txt",
		"FILE:///workspace/x":            "/workspace/x",
		"file:/workspace/x":              "/workspace/x",
		"file://localhost/workspace/x":   "/workspace/x",
		"sandbox:///workspace/%23%3f%25": "/workspace/#?%",
		"sandbox:/workspace/x":           "/workspace/x",
		"file:///workspace/..%2Fetc":     "/workspace/../etc", // which Locate refuses

		"a.txt": "a.txt", "/workspace/%20": "/workspace/%20", "./file:///x": "./file:///x", "dir/file:///x": "dir/file:///x",
		"a:b": "a:b", "1a://x": "1a://x", `C:\x`: `C:\x`, "c://x": "c://x", ":": ":", "": "", "files:x": "files:x", "_x://y": "_x://y",
	} {
		if got, err := fsbridge.FromURL(name); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"file://host/workspace/x": "names the host host", "sandbox://workspace/x": "names the host workspace", "sandbox://localhost/x": "host",
		"file:x": "relative", "sandbox:x": "relative", "file:": "relative", "file:./x": "relative", "file://": "no path", "file://localhost": "no path",
		"file:///x%zz": "%25", "file:///x%": "%25", "file:///x?y": "%3F", "file:///x#L10": "%23", "https://example.com/x": "scheme https", "vscode-remote://x": "scheme vscode-remote",
	} {
		if got, err := fsbridge.FromURL(name); sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %q, %v; want an error with %q", name, got, err, want)
		}
	}
}

func TestPatternFromURL(t *testing.T) {
	for pattern, want := range map[string]string{
		"file:///workspace/**/a?.{go,txt}": "/workspace/**/a?.{go,txt}",
		"sandbox:///workspace/a%20%2A%5B*": `/workspace/a \*\[*`,
		"**/*.go":                          "**/*.go",
	} {
		if got, err := fsbridge.PatternFromURL(pattern); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"file://host/*", "file:*", "file:///%", "file:///%4", "https://x/*"} {
		if got, err := fsbridge.PatternFromURL(pattern); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q is %q, %v", pattern, got, err)
		}
	}
}
