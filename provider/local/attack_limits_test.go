//go:build linux

package local_test

import (
	"os"
	"testing"
)

// TestKnownLimits makes the attempts that a sandbox made of mounts does not stop,
// so that what we say of it stays true. One that is stopped by now belongs
// among the attempts.
func TestKnownLimits(t *testing.T) {
	k := newKit(t)
	for _, l := range []struct {
		attempt
		layouts []layout
		why     string
	}{
		{attempt{
			name: "file-for-a-running-command", script: await + `cat late/.env`,
			during: func(s *fixture) {
				s.must(os.Mkdir(s.agent+"/late", 0o755))
				s.file(s.agent+"/late/.env", s.token)
				s.own()
			},
		}, nil, "patterns are looked for before each command: one that runs already sees what appears"},
		{attempt{name: "pattern-link-removed", script: `rm app/.env`, then: []string{`cat shared/env`}}, []layout{closedLinks},
			"what a denied link leads to is closed as long as the link is there; one that only a pattern names can be removed"},
	} {
		t.Run(l.name, func(t *testing.T) {
			s := newFixture(t, k, l.layouts...)
			s.up()
			out := l.start(t, s, s.sandboxed)
			if len(s.damage(out)) == 0 {
				t.Errorf("it is stopped now; documented is: %s\noutput: %.500q", l.why, out)
			}
		})
	}
}
