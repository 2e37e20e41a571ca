// Command sandbox runs untrusted code inside walls that it creates, hardens,
// tracks, reuses and removes. See "sandbox --help".
package main

import (
	"context"
	"os"

	"github.com/bulkhead-dev/sandbox/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	return cli.Program{
		Args:    os.Args,
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Backend: backend{},
		Exit:    os.Exit,
	}.Run(context.Background())
}
