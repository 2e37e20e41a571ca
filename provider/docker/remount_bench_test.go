//go:build linux

package docker_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// BenchmarkRemount puts one folder after another at the workspace of an idle
// sandbox.
func BenchmarkRemount(b *testing.B) {
	w := dockertest.New(b)
	sb, _ := w.Open("bench-remount")
	dir := b.TempDir()
	for b.Loop() {
		b.StopTimer()
		mount := detachedClone(b, dir)
		b.StartTimer()
		must(b, remount(b, sb, sandbox.WorkspaceDir, mount))
		b.StopTimer()
		mount.Close()
		b.StartTimer()
	}
}
