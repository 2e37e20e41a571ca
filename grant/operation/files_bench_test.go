package operation

import (
	"context"
	"testing"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// BenchmarkExecute compares operations in a real container with the files that
// they are done by.
func BenchmarkExecute(b *testing.B) {
	w := dockertest.New(b)
	sb, s := w.Open("files")
	bridge, err := fsbridge.Open(context.Background(), sb, s.Mounts, s.Tmpfs)
	filesMust(b, err)
	r := rigOver(b, sb, bridge)
	r.put("/workspace/f", "content")
	ctx, c := r.call()
	run := func(op grant.Operation) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if _, err := r.x.Execute(ctx, c, grant.Vetted{Operation: op}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("read", run(reading("/workspace/f", 0, 0)))
	b.Run("plain read", func(b *testing.B) {
		for b.Loop() {
			f, err := bridge.Read(ctx, "/workspace/f", 0, -1)
			filesMust(b, err)
			filesMust(b, f.Close())
		}
	})
	b.Run("write", run(writing("/workspace/g", "content", true)))
	b.Run("list", run(grant.Operation{Kind: grant.OpFsList, Path: "/workspace"}))
}
