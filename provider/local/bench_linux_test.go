package local

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// BenchmarkPlan is what each command costs before it starts.
func BenchmarkPlan(b *testing.B) {
	ws := b.TempDir()
	for i := range 200 {
		dir := filepath.Join(ws, "dir", string(rune('a'+i%26)), "sub"+string(rune('a'+i/26)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for _, f := range []string{"one", "two", ".env"} {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		if i > 20 {
			os.Remove(filepath.Join(dir, ".env"))
		}
	}
	home := b.TempDir()
	rules := []string{filepath.Join(home, ".ssh"), filepath.Join(home, ".aws"), filepath.Join(home, ".kube"), "/etc/shadow", "**/.env", "**/.env.*", "**/credentials.json", "**/secrets.json"}
	s := sandbox.Spec{
		Name:       "sbx-bench",
		Mounts:     []sandbox.Mount{{Source: ws, Target: "/workspace", Role: sandbox.RoleWorkspace}},
		Tmpfs:      []sandbox.Tmpfs{{Target: "/tmp", Size: 1 << 20, Mode: 0o1777}, {Target: sandbox.HomeDir, Size: 1 << 20, Mode: 0o700}},
		Filesystem: sandbox.FilesystemRules{DenyRead: rules, DenyWrite: rules},
	}
	p := New(Options{State: b.TempDir()})
	pl := newPlanner(newSite(p, launch.Definition{Name: s.Name}), s)
	for b.Loop() {
		if _, err := pl.plan(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
