package running

import (
	"io"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A Line is what a shell is given to run.
type Line struct {
	Text           string
	Stdin          io.Reader // nil is empty
	Stdout, Stderr io.Writer // nil discards
	Timeout        time.Duration
	Ask            bool
	Again          func()
	Started        func(sandbox.Process)
}

func number(n int) string { return strconv.Itoa(n) }
