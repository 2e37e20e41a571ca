package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// BenchmarkFiles times file operations of one hardened container through the
// guest, over its socket and over the relay. It reports the median in
// microseconds, and the throughput where there is content.
func BenchmarkFiles(b *testing.B) {
	w := dockertest.New(b)
	s := w.Spec("bench")
	s.Resources.Memory, s.Resources.MemorySwap = 1<<30, 1<<30
	sb := w.Create(s)
	sh(b, sb, "mkdir many; cd many; for i in $(seq 10000); do : >entry-$i; done")
	over := s
	over.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	for _, way := range []struct {
		name string
		sb   sandbox.Sandbox
	}{{"socket", sb}, {"relay", w.Reopen(over)}} {
		files, err := way.sb.(sandbox.FileServer).Files(context.Background())
		must(b, err)
		for _, op := range fileOps(files) {
			b.Run(way.name+"/"+op.name, func(b *testing.B) {
				must(b, op.run()) // what it looks at is there
				b.SetBytes(op.size)
				var took []time.Duration
				for b.Loop() {
					start := time.Now()
					must(b, op.run())
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
			})
		}
	}
}

type fileOp struct {
	name string
	size int64
	run  func() error
}

// fileOps are operations in the order in which they find what they need.
func fileOps(f sandbox.Files) []fileOp {
	ctx := context.Background()
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	write := func(name string, size int) fileOp {
		return fileOp{"write " + name, int64(size), func() error {
			return f.Write(ctx, "/workspace/"+name, bytes.NewReader(content[:size]), sandbox.WriteOptions{})
		}}
	}
	read := func(name string, size int) fileOp {
		return fileOp{"read " + name, int64(size), func() error {
			r, err := f.Read(ctx, "/workspace/"+name, 0, -1)
			if err != nil {
				return err
			}
			defer r.Close()
			if n, err := io.Copy(io.Discard, r); err != nil || n != int64(size) {
				return fmt.Errorf("%d bytes of %d: %w", n, size, err)
			}
			return nil
		}}
	}
	return []fileOp{
		write("4k", 4<<10), write("1m", 1<<20), write("64m", 64<<20),
		{"stat", 0, func() error { _, err := f.Stat(ctx, "/workspace/4k"); return err }},
		read("4k", 4<<10), read("1m", 1<<20), read("64m", 64<<20),
		{"readdir 10000", 0, func() error {
			list, err := f.ReadDir(ctx, "/workspace/many")
			if err == nil && len(list) != 10000 {
				err = fmt.Errorf("%d entries", len(list))
			}
			return err
		}},
	}
}
