package client_test

import (
	"context"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestLeftIsNamed holds that a command names what it had left running, and that
// one without such processes names none.
func TestLeftIsNamed(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	ended := func(script string) sandbox.Exit {
		p, err := c.Start(context.Background(), sandbox.Command{Args: []string{"sh", "-c", script}})
		must(t, err)
		exit, err := p.Wait()
		must(t, err)
		return exit
	}
	got := ended("sleep 4500 & setsid sleep 4501 & while [ $(ps -eo args | grep -c 'sleep 450[01]$') -lt 2 ]; do :; done")
	if got.Left == nil || got.Left.Count != 2 || len(got.Left.Names) != 2 || !strings.HasPrefix(got.Left.Names[0], "sleep (") {
		t.Errorf("got %+v", got.Left)
	}
	if got := ended("sleep 0 & wait; true"); got.Left != nil {
		t.Errorf("got %+v for a command that leaves nothing", got.Left)
	}
}
