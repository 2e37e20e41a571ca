//go:build linux

package local_test

import (
	"context"
	"io"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// BenchmarkFirstCommand is from nothing to the end of the first command.
func BenchmarkFirstCommand(b *testing.B) {
	r := newRig(b)
	s := r.spec("a")
	p := r.provider(b)
	for b.Loop() {
		sb := r.open(p, s)
		sh(b, sb, "true")
		b.StopTimer()
		sb.Close()
		must(b, p.Remove(context.Background(), s.Name))
		b.StartTimer()
	}
}

// BenchmarkCommand is one more command in an instance that stands.
func BenchmarkCommand(b *testing.B) {
	r := newRig(b)
	sb := r.open(r.provider(b), r.spec("a"))
	for b.Loop() {
		p, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"true"}})
		must(b, err)
		_, err = p.Wait()
		must(b, err)
	}
}

// BenchmarkLine is a builtin in a shell, with both outputs.
func BenchmarkLine(b *testing.B) {
	r := newRig(b)
	sb := r.open(r.provider(b), r.spec("a"))
	shell, err := sb.OpenShell(context.Background(), sandbox.ShellOptions{})
	must(b, err)
	defer shell.Close()
	for b.Loop() {
		p, err := shell.Run(context.Background(), ":", sandbox.Command{Stdout: io.Discard, Stderr: io.Discard})
		must(b, err)
		_, err = p.Wait()
		must(b, err)
	}
}
