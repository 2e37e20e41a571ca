// Command sandbox runs untrusted code inside sandboxes that it creates,
// hardens, tracks, reuses and removes. See "sandbox --help".
package main

import (
	"context"
	"io"
	"log"
	"os"
	"runtime/debug"

	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// gcPercent is how much the heap may grow, in percent of what is alive, before
// memory is collected: with it a command that needs less than 32 MB never
// pays for a collection, which is most of them and takes longer than their
// own work. GOGC in the environment is heeded all the same.
const gcPercent = 800

// stack is how deep in bytes the calls of a command go.
const stack = 124 << 10

func main() {
	grow(0)
	os.Exit(run())
}

// grow has the stack hold stack bytes at once. It would otherwise be doubled
// four times, and each time all that is on it looked up in the tables of the
// program and moved.
//
//go:noinline
func grow(n int) byte {
	if n == 0 {
		return 0
	}
	var room [stack]byte // part of the frame, and never touched
	room[n] = 1
	return room[n/2]
}

func run() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// Nothing of ours uses this log. net/http writes there what hosts say out of
	// turn, which can be a secret that they were sent.
	log.SetOutput(io.Discard)
	return cli.Program{
		Args:    os.Args,
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Backend: backend{},
		Exit:    os.Exit,
	}.Run(context.Background())
}
