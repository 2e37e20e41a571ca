package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestShellReportedBeforeItsEnd ends a shell with the line that follows at once:
// what the line before has done to it is kept, although the shell writes it
// while the next line is on its way. The same holds for a state that is larger
// than a pipe.
func TestShellReportedBeforeItsEnd(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*testing.T, sandbox.Shell){
		"killed": func(t *testing.T, s sandbox.Shell) {
			if got := line(t, s, "kill -9 $$"); got.exit.Code != 137 || !got.exit.Restarted {
				t.Errorf("got %+v", got)
			}
		},
		"left": func(t *testing.T, s sandbox.Shell) {
			if got := line(t, s, "exit 3"); got.exit.Code != 3 || !got.exit.Restarted {
				t.Errorf("got %+v", got)
			}
		},
		"called off": func(t *testing.T, s sandbox.Shell) {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Millisecond))
			defer cancel()
			if p, err := s.Run(ctx, "sleep 60", sandbox.Command{}); err == nil {
				_, _ = p.Wait() // of no matter here
			}
		},
	}
	eachShell(t, func(t *testing.T, _ *guest, c *client.Client, k kind) {
		for name, end := range ends {
			for size, rounds := range map[int]int{0: testenv.Rounds(5, 10, 60), 300_000: testenv.Rounds(2, 3, 15)} {
				t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
					s := openShell(t, c, sandbox.ShellOptions{})
					line(t, s, "big="+strings.Repeat("b", size))
					for i := range rounds {
						if got := line(t, s, fmt.Sprint("x=", i)); got.exit.Code != 0 {
							t.Errorf("round %d: got %+v", i, got)
						}
						end(t, s)
						if got, want := line(t, s, "echo $x ${#big}"), fmt.Sprintln(i, size); got.stdout != want {
							t.Fatalf("round %d: got %+v, want %q", i, got, want)
						}
					}
				})
			}
		}
	})
}

// TestShellForgetsItsLine runs lines of which bash forgets the rest. What asks
// for its answer stands in the same line of its script, and is none of that.
func TestShellForgetsItsLine(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, _ *guest, c *client.Client, k kind) {
		if !k.bash() {
			t.Log("another shell than bash ends")
			return
		}
		s := openShell(t, c, sandbox.ShellOptions{})
		line(t, s, "readonly r=1")
		for i := range 10 {
			for _, text := range []string{"x=%d; r=2; x=no", "x=%d; sleep 0.0%[1]d; r=2; x=no", "x=%d; : $((1/0)); x=no"} {
				for _, input := range []string{"", "input"} {
					cmd := sandbox.Command{}
					if input != "" {
						cmd.Stdin = strings.NewReader(input)
					}
					got := lineWith(t, s, fmt.Sprintf(text, i), cmd)
					if got.exit.Code != 1 || got.exit.Restarted {
						t.Errorf("%s: got %+v", text, got)
					}
					s := line(t, s, "echo $x")
					if s.stdout != fmt.Sprintln(i) || s.exit.Restarted {
						t.Errorf("%s: got %+v", text, s)
					}
				}
			}
		}
	})
}
