package fstests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func cancelChecks() []Check {
	return []Check{
		{"a source that fails leaves the old content", cancelSource},
		{"a write that is called off leaves the old content and no debris", cancelWrite},
		{"a read that is called off ends", cancelRead},
	}
}

func cancelSource(r *rig) {
	r.put(r.dir+"/f", "old")
	for _, n := range []int{0, 1, 5000, 1 << 20} {
		for _, name := range []string{"/f", "/new"} {
			err := r.Files.Write(r.ctx, r.dir+name, broken(n), sandbox.WriteOptions{})
			var cause errBroken
			if !errors.As(err, &cause) {
				r.Errorf("%s, after %d bytes: %v, want the source's error", name, n, err)
			}
		}
	}
	r.want(r.dir+"/f", "old")
	r.debris(r.dir, "f")
}

// cancelWrite ends the context in the middle: after each amount of content
// that has certainly been taken, and at times spread over a whole write.
func cancelWrite(r *rig) {
	r.put(r.dir+"/f", "old")
	for _, n := range []int{0, 1, 100 << 10, 4 << 20} {
		ctx, cancel := context.WithCancel(r.ctx)
		err := r.Files.Write(ctx, r.dir+"/f", &stuck{left: n, reached: cancel, ctx: ctx}, sandbox.WriteOptions{})
		cancel()
		if err == nil {
			r.Errorf("called off after %d bytes: no error", n)
		}
		r.want(r.dir+"/f", "old")
		r.debris(r.dir, "f")
	}
	start := time.Now()
	r.put(r.dir+"/g", "old")
	whole := time.Since(start)
	steps := testenv.Rounds(20, 20, 40)
	if r.rounds < slowRounds {
		steps = 10
	}
	for i := range steps {
		ctx, cancel := context.WithTimeout(r.ctx, whole*time.Duration(i+1)/time.Duration(steps-steps/8))
		want := fmt.Sprintf("new %d", i)
		old, err := r.read(r.dir + "/g")
		r.must(err)
		err = r.Files.Write(ctx, r.dir+"/g", strings.NewReader(want), sandbox.WriteOptions{})
		cancel()
		got, readErr := r.read(r.dir + "/g")
		r.must(readErr)
		if got != want && (err == nil || got != old) {
			r.Errorf("after a write with %v the content is %q", err, got)
		}
		r.debris(r.dir, "f", "g")
	}
}

// stuck gives some bytes, says so and then nothing until ctx ends.
type stuck struct {
	left    int
	reached func()
	ctx     context.Context
}

func (s *stuck) Read(p []byte) (int, error) {
	if s.left == 0 {
		s.reached()
		<-s.ctx.Done()
		return 0, io.EOF // the worst: it looks like the end of the content
	}
	n := min(len(p), s.left)
	for i := range p[:n] {
		p[i] = 'n'
	}
	s.left -= n
	return n, nil
}

func cancelRead(r *rig) {
	r.must(r.Files.Write(r.ctx, r.dir+"/f", io.LimitReader(zeros{}, 8<<20), sandbox.WriteOptions{}))
	ctx, cancel := context.WithCancel(r.ctx)
	f, err := r.Files.Read(ctx, r.dir+"/f", 0, -1)
	r.must(err)
	_, err = io.ReadFull(f, make([]byte, 1000))
	r.must(err)
	cancel()
	if _, err := io.Copy(io.Discard, f); err == nil {
		r.Error("a read that was called off came to its end without error")
	}
	r.must(f.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
