package operation_test

import (
	"fmt"
	"testing"

	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// BenchmarkRoom looks at folders of a real container.
func BenchmarkRoom(b *testing.B) {
	w := dockertest.New(b)
	sb, spec := w.Open("space")
	r := over(b, sb, spec)
	for _, tt := range []struct{ folders, files int }{{0, 0}, {1, 100}, {10, 100}, {100, 100}} {
		b.Run(fmt.Sprintf("%d folders of %d files", tt.folders, tt.files), func(b *testing.B) {
			r.TB = b
			s := operation.NewSpaceExecutor(r.files, "/tmp")
			dir := r.allot(s, 64<<20)
			r.sh(fmt.Sprintf(`cd "$1"; for d in $(seq %d); do mkdir $d; (cd $d; seq %d | xargs touch); done`, tt.folders, tt.files), dir)
			for b.Loop() {
				if _, _, err := s.Room(b.Context(), dir+"/f"); err != nil {
					b.Fatal(err)
				}
			}
			spaceMust(b, s.Release(b.Context()))
		})
	}
}
