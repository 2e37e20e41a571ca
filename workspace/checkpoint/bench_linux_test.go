package checkpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The size of the workspace of the benchmarks: 1 GiB in 50,000 files, or a
// smaller one with -short.
func benchSize(b *testing.B) (files, size int) {
	b.Helper()
	if testing.Short() {
		return 5000, 2 << 10
	}
	return 50_000, 21 << 10
}

// benchTree writes the files of a workspace.
func benchTree(b *testing.B, dir string) {
	b.Helper()
	files, size := benchSize(b)
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(i * 7)
	}
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprint(i/250))
		if i%250 == 0 {
			must(b, os.MkdirAll(sub, 0o755))
		}
		copy(text, fmt.Sprint(i))
		must(b, os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), text, 0o644))
	}
	// What waits to be written is no part of what is measured.
	_ = exec.Command("sync").Run()
}

func benchStore(b *testing.B, m Means, o Options) (*Store, Record) {
	b.Helper()
	o.Means = m
	s := newStore(b, o)
	if m == Overlay {
		needOverlay(b, s)
	}
	plain(b, s, ws, nil)
	benchTree(b, s.Path(ws))
	return s, create(b, s, ws, CreateOptions{})
}

// change changes a hundred files.
func change(b *testing.B, s *Store, n int) {
	b.Helper()
	for i := range 100 {
		must(b, os.WriteFile(filepath.Join(s.Path(ws), "0", fmt.Sprint(i)), []byte(fmt.Sprint("changed ", n)), 0o644))
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, m := range []Means{Overlay, Copy} {
		b.Run(string(m), func(b *testing.B) {
			s, _ := benchStore(b, m, Options{})
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				change(b, s, n)
				b.StartTimer()
				create(b, s, ws, CreateOptions{})
			}
		})
	}
}

// BenchmarkConvert is the first checkpoint of a plain folder.
func BenchmarkConvert(b *testing.B) {
	s := newStore(b, Options{Means: Overlay})
	needOverlay(b, s)
	plain(b, s, ws, nil)
	benchTree(b, s.Path(ws))
	for b.Loop() {
		_, w, err := s.Create(b.Context(), ws, CreateOptions{})
		must(b, err)
		b.StopTimer()
		must(b, w.Abort())
		b.StartTimer()
	}
}

func BenchmarkFork(b *testing.B) {
	for _, m := range []Means{Overlay, Copy} {
		b.Run(string(m), func(b *testing.B) {
			s, r := benchStore(b, m, Options{})
			for n := 0; b.Loop(); n++ {
				name := fmt.Sprintf("sbx-f%d", n)
				must(b, s.Fork(b.Context(), r.ID, name, otherUser()))
				b.StopTimer()
				must(b, s.Drop(b.Context(), name))
				must(b, os.RemoveAll(s.Path(name)))
				b.StartTimer()
			}
		})
	}
}

func BenchmarkRollback(b *testing.B) {
	for _, m := range []Means{Overlay, Copy} {
		b.Run(string(m), func(b *testing.B) {
			s, r := benchStore(b, m, Options{})
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				change(b, s, n)
				b.StartTimer()
				_, w, err := s.Rollback(b.Context(), ws, r.ID)
				must(b, err)
				if w != nil {
					must(b, w.Commit())
				}
				b.StopTimer()
				must(b, s.Close())
				b.StartTimer()
			}
		})
	}
}

// BenchmarkChain1000 compares reading a workspace after a thousand checkpoints
// with reading it after one; ratio is the former divided by the latter.
func BenchmarkChain1000(b *testing.B) {
	s := newStore(b, Options{Means: Overlay})
	needOverlay(b, s)
	for _, name := range []string{ws, "sbx-one"} {
		plain(b, s, name, nil)
		for i := range 2000 {
			must(b, os.WriteFile(filepath.Join(s.Path(name), fmt.Sprint(i)), []byte("content"), 0o644))
		}
	}
	for i := range 1000 {
		must(b, os.WriteFile(filepath.Join(s.Path(ws), fmt.Sprint(i)), []byte("changed"), 0o644))
		create(b, s, ws, CreateOptions{})
	}
	for i := range 1000 {
		must(b, os.WriteFile(filepath.Join(s.Path("sbx-one"), fmt.Sprint(i)), []byte("changed"), 0o644))
	}
	create(b, s, "sbx-one", CreateOptions{})
	read := func(name string) time.Duration {
		begun := time.Now()
		for i := range 2000 {
			if _, err := os.ReadFile(filepath.Join(s.Path(name), fmt.Sprint(i))); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(begun)
	}
	read(ws)
	read("sbx-one")
	var long, short time.Duration
	for b.Loop() {
		long += read(ws)
		short += read("sbx-one")
	}
	b.ReportMetric(float64(long)/float64(short), "ratio")
	h, _, err := s.Head(ws)
	must(b, err)
	b.ReportMetric(float64(len(h.Layers)), "layers")
}

// BenchmarkCopy compares the copy of a tree with cp -a, in turns; speed is that
// of the former in parts of the latter.
func BenchmarkCopy(b *testing.B) {
	src := b.TempDir()
	benchTree(b, src)
	var ours, theirs time.Duration
	for b.Loop() {
		begun := time.Now()
		dst, _, err := copyTree(b, src, &copier{hash: true})
		must(b, err)
		ours += time.Since(begun)
		b.StopTimer()
		must(b, os.RemoveAll(dst))
		to := filepath.Join(b.TempDir(), "cp")
		begun = time.Now()
		if text, err := exec.Command("cp", "-a", src, to).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
		theirs += time.Since(begun)
		must(b, os.RemoveAll(to))
		b.StartTimer()
	}
	b.ReportMetric(float64(theirs)/float64(ours), "speed")
}
