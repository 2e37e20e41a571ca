//go:build !sandbox_front

package orchestrator_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// A program that runs what an agent wrote. Settings and state are those of the
// command line unless Options name others.
func Example() {
	state, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(state)
	h, err := orchestrator.Open(orchestrator.Options{StateDir: state, Provider: "local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	m, err := h.Manager()
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := m.Capture(context.Background(), manager.Request{
		Who:     config.Who{Agent: "main", Session: "chat-42"},
		Command: sandbox.Command{Args: []string{"sh", "-c", "echo hello; exit 3"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%sexit status %d\n", r.Stdout, r.ExitCode)
	// Output:
	// hello
	// exit status 3
}
