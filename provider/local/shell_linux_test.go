package local

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// A spoilt guest cannot take up any state.
type spoilt struct{ fresh, tried int }

func (g *spoilt) OpenShell(context.Context, sandbox.ShellOptions, sandbox.Limits) (sandbox.Shell, error) {
	g.fresh++
	return nil, nil
}

func (g *spoilt) OpenShellFrom(context.Context, sandbox.ShellOptions, sandbox.Limits, *client.ShellState) (client.StateKeeper, error) {
	g.tried++
	return nil, errors.New("the shell has ended\non its way")
}

// TestStateThatEndsItsShell holds that a state is not tried for ever, that its
// loss is reported, and that a caller who gives up does not count.
func TestStateThatEndsItsShell(t *testing.T) {
	var warned []string
	p := New(Options{Warn: func(_, text string) { warned = append(warned, text) }})
	s := &shell{h: &handle{site: &site{p: p}}, options: sandbox.ShellOptions{ID: "s"}}
	g, state := &spoilt{}, &client.ShellState{}
	gone, done := context.WithCancel(context.Background())
	done()
	for range 3 {
		if _, _, err := s.again(gone, state, g); err == nil || g.fresh > 0 {
			t.Fatalf("given up early: %v, %d", err, g.fresh)
		}
	}
	if _, _, err := s.again(context.Background(), state, g); err == nil || len(warned) > 0 {
		t.Fatalf("the first failure: %v, warned %q", err, warned)
	}
	_, reborn, err := s.again(context.Background(), state, g)
	if err != nil || !reborn || g.fresh != 1 {
		t.Errorf("the second failure: %v, %v, %d", reborn, err, g.fresh)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "given up") || strings.Contains(warned[0], "\n") {
		t.Errorf("warned %q", warned)
	}
	// Another state gets its two chances.
	if _, _, err := s.again(context.Background(), state, g); err == nil {
		t.Error("the next state is given up at once")
	}
}

// A keeper is a shell of a guest that is gone.
type keeper struct {
	sandbox.Shell
	state *client.ShellState
	err   error
}

func (k keeper) State(context.Context) (*client.ShellState, error) { return k.state, k.err }

// TestStateThatIsLost holds that a shell goes on without a state that is lost,
// which is reported, and that there is nothing to report where there was none.
func TestStateThatIsLost(t *testing.T) {
	state := &client.ShellState{}
	for _, tt := range []struct {
		left   sandbox.Shell
		want   *client.ShellState
		warned string
		fails  bool
	}{
		{left: keeper{state: state}, want: state},
		{left: keeper{}.Shell},
		{left: keeper{err: sandbox.Errorf(sandbox.CodeNotFound, "shell state", "there is none")}},
		{left: keeper{err: sandbox.Errorf(sandbox.CodeUnavailable, "shell state", "it was too much")}, warned: "too much"},
		{left: keeper{err: sandbox.Errorf(sandbox.CodeTimeout, "shell state", "given up")}, fails: true},
	} {
		warned := ""
		p := New(Options{Warn: func(_, text string) { warned += text }})
		s := &shell{h: &handle{site: &site{p: p}}, options: sandbox.ShellOptions{ID: "s"}}
		got, err := s.stateOf(context.Background(), tt.left)
		if got != tt.want || (err != nil) != tt.fails || !strings.Contains(warned, tt.warned) || (warned == "") != (tt.warned == "") {
			t.Errorf("%v: got %v, %v, warned %q", tt.left, got, err, warned)
		}
	}
}
