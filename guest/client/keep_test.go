package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestShellOutlivesItsGuest is TestShellState over the death of the guest:
// what a line has set is there in a shell of the next guest.
func TestShellOutlivesItsGuest(t *testing.T) {
	t.Parallel()
	long(t)
	for _, k := range shellKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			k.skip(t)
			o := client.Options{Env: map[string]string{"PATH": k.path}, Dir: "/tmp"}
			first := startSandbox(t, o)
			shells, env := map[string]client.StateKeeper{}, sandbox.ShellOptions{Env: map[string]string{"FROM_ENV": "x"}}
			for _, tt := range stateCases {
				if tt.only != "" && tt.only != k.name {
					continue
				}
				s := keptShell(t, first, env, nil)
				if got := line(t, s, tt.set); got.exit.Code != 0 || got.exit.Restarted {
					t.Fatalf("%s: set: got %+v", tt.name, got)
				}
				stateNow(t, s) // so that it has been kept
				shells[tt.name] = s
			}
			first.fall()
			second := startSandbox(t, o)
			for i, tt := range stateCases {
				old := shells[tt.name]
				if old == nil {
					continue
				}
				state := stateNow(t, old)
				if state.Stale() || state.Program() != k.program || state.Size() == 0 {
					t.Errorf("%s: stale %v, of %s, %d bytes", tt.name, state.Stale(), state.Program(), state.Size())
				}
				s := keptShell(t, second, env, state)
				got := line(t, s, tt.look)
				if !got.exit.Restarted || (got.stdout != tt.want) != (tt.lostInSh && !k.bash()) {
					t.Errorf("%s: in the next guest: got %+v", tt.name, got)
				}
				if i%8 == 0 { // inside it is kept as ever, of which TestShellState looks at all
					line(t, s, "exit")
					if got := line(t, s, tt.look); got.exit.Restarted || (got.stdout != tt.want) != (tt.lostInSh && !k.bash()) {
						t.Errorf("%s: after a restart there: got %+v", tt.name, got)
					}
				}
				must(t, old.Close())
				must(t, s.Close())
			}
		})
	}
}

// TestShellMovesWhileItLives holds that the state of a living shell is that
// after the line that has just ended, and that it can move again and again.
func TestShellMovesWhileItLives(t *testing.T) {
	t.Parallel()
	w := startSandbox(t, client.Options{})
	s := keptShell(t, w, sandbox.ShellOptions{}, nil)
	state := stateNow(t, s)
	for i := range 15 {
		if state.Stale() {
			t.Fatalf("round %d: stale", i)
		}
		next := keptShell(t, w, sandbox.ShellOptions{}, state)
		got := line(t, next, "n=$((n + 1)); echo $n")
		if !got.exit.Restarted || got.stdout != fmt.Sprintln(i+1) {
			t.Fatalf("round %d: got %+v", i, got)
		}
		if got := line(t, next, ":"); got.exit.Restarted {
			t.Fatalf("round %d: the second line: got %+v", i, got)
		}
		must(t, s.Close())
		s, state = next, stateNow(t, next)
	}
	must(t, s.Close())
	_, err := s.State(context.Background())
	codeIs(t, err, sandbox.CodeNotFound)
}

// TestShellStateDuringLine holds that a line that runs is not in the state, and
// does not delay a caller that asks for the state; nor is the state stale for
// that.
func TestShellStateDuringLine(t *testing.T) {
	w := startSandbox(t, client.Options{})
	s := keptShell(t, w, sandbox.ShellOptions{}, nil)
	line(t, s, "x=before")
	out := newLineWriter("on")
	p, err := s.Run(context.Background(), "x=during; echo on; sleep 1000", sandbox.Command{Stdout: out})
	must(t, err)
	out.wait(t)
	if state := stateNow(t, s); state.Stale() {
		t.Error("stale while a line runs")
	}
	w.fall()
	if _, err := p.Wait(); err == nil {
		t.Error("the line has an end")
	}
	state := stateNow(t, s)
	next := keptShell(t, startSandbox(t, client.Options{}), sandbox.ShellOptions{}, state)
	if got := line(t, next, "echo $x"); state.Stale() || got.stdout != "before\n" || !got.exit.Restarted {
		t.Errorf("stale %v, got %+v", state.Stale(), got)
	}
}

// TestShellStateSizes moves a state of 6 MB, and keeps none of more than 16
// MiB.
func TestShellStateSizes(t *testing.T) {
	t.Parallel()
	long(t)
	for _, k := range shellKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			k.skip(t)
			o := client.Options{Env: map[string]string{"PATH": k.path}}
			w := startSandbox(t, o)
			s := keptShell(t, w, sandbox.ShellOptions{}, nil)
			line(t, s, "BIG=$(head -c 6000000 /dev/zero | tr '\\0' x); n=1")
			if state := stateNow(t, s); state.Stale() || state.Size() < 6_000_000 {
				t.Errorf("stale %v, %d bytes", state.Stale(), state.Size())
			}
			line(t, s, "HUGE=$BIG$BIG; n=2")
			if state := stateNow(t, s); !state.Stale() || state.Size() > 16<<20 {
				t.Errorf("too large: stale %v, %d bytes", state.Stale(), state.Size())
			}
			w.fall()
			next := keptShell(t, startSandbox(t, o), sandbox.ShellOptions{}, stateNow(t, s))
			if got := line(t, next, "echo $n ${#BIG} ${#HUGE}"); got.stdout != "1 6000000 0\n" || !got.exit.Restarted {
				t.Errorf("got %+v", got)
			}
			line(t, next, "unset BIG; n=3")
			if state := stateNow(t, next); state.Stale() || state.Size() > 1<<20 {
				t.Errorf("small again: stale %v, %d bytes", state.Stale(), state.Size())
			}
			must(t, s.Close())
		})
	}
}

// TestShellStateOfRestart holds which state is kept over lines with which
// the shell ends, and that none of them makes it stale.
func TestShellStateOfRestart(t *testing.T) {
	w := startSandbox(t, client.Options{})
	s := keptShell(t, w, sandbox.ShellOptions{}, nil)
	line(t, s, "x=1")
	line(t, s, "x=2; kill -9 $$")
	if state := stateNow(t, s); state.Stale() {
		t.Error("stale after a line with which the shell has ended")
	}
	line(t, s, "y=$x")
	line(t, s, "exit")
	w.fall()
	state := stateNow(t, s)
	next := keptShell(t, startSandbox(t, client.Options{}), sandbox.ShellOptions{}, state)
	if got := line(t, next, "echo $x $y"); state.Stale() || got.stdout != "1 1\n" {
		t.Errorf("stale %v, got %+v", state.Stale(), got)
	}
}

// TestShellStateOfAnother holds that the state of bash is not read by an sh.
func TestShellStateOfAnother(t *testing.T) {
	kinds := shellKinds(t)
	w := startSandbox(t, client.Options{Env: map[string]string{"PATH": kinds[0].path}})
	s := keptShell(t, w, sandbox.ShellOptions{}, nil)
	line(t, s, "x=1")
	state := stateNow(t, s)
	_, err := w.c.OpenShellFrom(context.Background(), sandbox.ShellOptions{Env: map[string]string{"PATH": kinds[1].path}}, sandbox.Limits{}, state)
	codeIs(t, err, sandbox.CodeValidation)
	if !strings.Contains(err.Error(), "another shell") {
		t.Errorf("got %v", err)
	}
	if got := line(t, keptShell(t, w, sandbox.ShellOptions{}, state), "echo $x"); got.stdout != "1\n" {
		t.Errorf("tried again: got %+v", got)
	}
}

// TestShellWithoutSide holds that a guest without the channel keeps nothing,
// and says so.
func TestShellWithoutSide(t *testing.T) {
	w := startSandbox(t, client.Options{})
	state := stateNow(t, keptShell(t, w, sandbox.ShellOptions{}, nil))
	c := startGuest(t).client(client.Options{})
	if _, ok := openShell(t, c, sandbox.ShellOptions{}).(client.StateKeeper); ok {
		t.Error("a shell without the channel says that it keeps its state")
	}
	_, err := c.OpenShellFrom(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{}, state)
	codeIs(t, err, sandbox.CodeUnsupported)
}
