//go:build sandbox_front || sandbox_engine

// What is built with a tag leaves something to a program that lies beside it:
// the front all that may come to an engine, and both what serves and what is a
// client of a daemon. A daemon's parts would make each command hold some 4 MB
// more and start later.

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// The file names of the programs with more in them: with an engine's client,
// and with everything, which is what is built without a tag.
const (
	engineName = "sandbox-engine"
	daemonName = "sandbox-daemon"
)

// handOver executes the program called name, of which does says what it does
// that this one cannot, in place of this one and with the same words. Nothing
// may have been begun that it would not begin anew. It returns only when that
// fails.
func handOver(name, does string) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	path := filepath.Join(filepath.Dir(self), name)
	switch {
	case err != nil:
	case filepath.Base(self) == name:
		err = errors.New("this is another part of the program under that name")
	default:
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "start", Resource: path, Err: err,
		Message: "the part of this program that " + does + " cannot be started",
		Hint:    "put " + name + " beside sandbox, as make build does, or install sandbox with: go install ./cmd/...",
	}
}

// serving executes what serves in place of this program.
func serving() error { return handOver(daemonName, "serves") }

// Serve implements cli.Backend.
func (backend) Serve(context.Context, cli.Options, cli.Serving) error { return serving() }

// MCP implements cli.Backend.
func (backend) MCP(context.Context, cli.Options, cli.MCPSession) error { return serving() }

// Top implements cli.Backend.
func (backend) Top(context.Context, cli.Options, cli.TopView) error {
	return handOver(daemonName, "shows the live view")
}

// beyond executes the program that has the client of clusters in place of this one,
// before anything was begun.
func beyond() error { return handOver(daemonName, "speaks to clusters") }
