package mcp

import (
	"path"
	"strings"
	"testing"
)

// FuzzURI holds that no URI leads out of the workspace, and that the URI of a
// file maps back to it.
func FuzzURI(f *testing.F) {
	for _, s := range []string{"a b", "../x", "%2e%2e/x", "dir/ü%?#", "a//b", "\x00", "..%2f", "sandbox:///workspace/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, uri := range []string{s, workspaceURI + s} {
			if at, ok := pathOf(uri); ok && (path.Clean(at) != at || !strings.HasPrefix(at, "/workspace/") || strings.ContainsRune(at, 0)) {
				t.Errorf("%q leads to %q", uri, at)
			}
		}
		at, ok := pathOf(workspaceURI + s)
		if !ok {
			return
		}
		again, ok := pathOf(uriOf(strings.TrimPrefix(at, "/workspace/")))
		if !ok || again != at {
			t.Errorf("%q leads back to %q", at, again)
		}
	})
}
