package docker_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// BenchmarkTrue runs /bin/true in one hardened container by three ways, in
// turns: through the guest's socket, through the relay, and by the plain
// engine's exec. It reports the medians in microseconds and how many times
// faster than the plain engine the first two are.
func BenchmarkTrue(b *testing.B) {
	w := dockertest.New(b)
	s := w.Spec("bench")
	socket := w.Create(s)
	over := s
	over.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	relay := w.Reopen(over)
	ctx := context.Background()
	guest := func(sb sandbox.Sandbox) func() error {
		return func() error {
			p, err := sb.Start(ctx, sandbox.Command{Args: []string{"/bin/true"}})
			if err != nil {
				return err
			}
			_, err = p.Wait()
			return err
		}
	}
	ways := []struct {
		name string
		run  func() error
		took []time.Duration
	}{
		{name: "socket", run: guest(socket)},
		{name: "relay", run: guest(relay)},
		{name: "engine", run: func() error {
			stream, err := w.Engine.Exec(ctx, s.Name, []string{"/bin/true"})
			if err != nil {
				return err
			}
			defer stream.Close()
			_, err = io.Copy(io.Discard, stream)
			return err
		}},
	}
	for b.Loop() {
		for i := range ways {
			start := time.Now()
			if err := ways[i].run(); err != nil {
				b.Fatal(err)
			}
			ways[i].took = append(ways[i].took, time.Since(start))
		}
	}
	median := map[string]float64{}
	for _, way := range ways {
		slices.Sort(way.took)
		median[way.name] = float64(way.took[len(way.took)/2].Microseconds())
		b.ReportMetric(median[way.name], way.name+"-µs")
	}
	b.ReportMetric(median["engine"]/median["socket"], "socket-times-faster")
	b.ReportMetric(median["engine"]/median["relay"], "relay-times-faster")
}
