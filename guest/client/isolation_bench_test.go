package client_test

import "testing"

// BenchmarkWallTrue is what a command costs inside bubblewrap: with
// everything, without the observer, and without Landlock's rules either.
func BenchmarkWallTrue(b *testing.B) {
	for _, bench := range []struct {
		name              string
		observe, landlock bool
	}{{"observed", true, true}, {"unobserved", false, true}, {"bare", false, false}} {
		b.Run(bench.name, func(b *testing.B) {
			p := observing()
			p.config.Observe, p.config.Landlock = bench.observe, bench.landlock
			w := p.start(b)
			for b.Loop() {
				execTrue(b, w.Client)
			}
		})
	}
}
