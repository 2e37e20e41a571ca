package client_test

import (
	"context"
	"slices"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// BenchmarkShellBuiltin runs a builtin back to back, so each line waits for
// the state after the one before. Medians, in microseconds: of the whole
// line, and of the time that a caller waits for who makes a short pause.
func BenchmarkShellBuiltin(b *testing.B) {
	c := startGuest(b).client(client.Options{})
	benchBuiltin(b, openShell(b, c, sandbox.ShellOptions{}))
}

// BenchmarkShellBuiltinKept is the same in a shell whose state is handed over.
func BenchmarkShellBuiltinKept(b *testing.B) {
	benchBuiltin(b, openShell(b, startSandbox(b, client.Options{}).c, sandbox.ShellOptions{}))
}

func benchBuiltin(b *testing.B, s sandbox.Shell) {
	ctx := context.Background()
	run := func() time.Duration {
		start := time.Now()
		p, err := s.Run(ctx, ":", sandbox.Command{})
		must(b, err)
		_, err = p.Wait()
		must(b, err)
		return time.Since(start)
	}
	var took, rested []time.Duration
	for b.Loop() {
		took = append(took, run())
	}
	for range 200 {
		time.Sleep(2 * time.Millisecond)
		rested = append(rested, run())
	}
	for name, all := range map[string][]time.Duration{"p50-µs": took, "rested-p50-µs": rested} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1000, name)
	}
}
