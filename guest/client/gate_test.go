package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFailuresMakeWay has more commands fail to start than may start at once.
func TestFailuresMakeWay(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	var done sync.WaitGroup
	for i := range 200 {
		done.Go(func() {
			cmd := sandbox.Command{Args: []string{"/no/such/program"}}
			if i%2 == 0 {
				cmd = sandbox.Command{Args: []string{"true"}, Dir: "/no/such/folder"}
			}
			_, err := c.Start(context.Background(), cmd)
			if sandbox.CodeOf(err) != sandbox.CodeExecution {
				t.Error(err)
			}
		})
	}
	done.Wait()
	must(t, execOnce(c))
}

// TestCancelAmongMany cancels commands of which most wait for their turn.
// All callers hear of it, and nothing of them runs afterwards; the others
// are served.
func TestCancelAmongMany(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for i := range 400 {
		done.Go(func() {
			if i%4 == 0 {
				if err := execOnce(c); err != nil {
					t.Error(err)
				}
				return
			}
			p, err := c.Start(ctx, sandbox.Command{Args: []string{"sleep", "1000"}})
			if err == nil {
				_, err = p.Wait()
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if i == 40 {
			cancel()
		}
	}
	done.Wait()
	cancel()
	must(t, execOnce(c))
	eventually(t, 30*time.Second, "no command is left", func() bool {
		return !strings.Contains(fmt.Sprint(g.inside()), "sleep")
	})
}

// TestClientClosesWithManyCommands has a client go whose commands wait for their
// turn: none of them is left, and none starts later.
func TestClientClosesWithManyCommands(t *testing.T) {
	long(t)
	g := startGuest(t)
	c, err := client.New(context.Background(), g.connect(), client.Options{})
	must(t, err)
	must(t, execOnce(c))
	var done sync.WaitGroup
	first := make(chan struct{}, 500)
	for range 500 {
		done.Go(func() {
			// It fails for most: that is what the test is about.
			_, _ = c.Start(context.Background(), sandbox.Command{Args: []string{"sleep", "1000"}})
			first <- struct{}{}
		})
	}
	<-first
	c.Close()
	done.Wait()
	other := g.client(client.Options{})
	must(t, execOnce(other))
	g.settled(testenv.Footprint{Descriptors: 100, Proportional: 16 << 20})
	must(t, execOnce(other))
}
