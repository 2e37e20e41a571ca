//go:build linux

// This file drives a Docker engine as programs without a guest of their own do:
// one exec for each command and each file. It is the yardstick of the
// benchmarks, and nothing else uses it.
//
// It takes the shortest correct way that the API has: create the exec,
// attach to it, which starts it, read to the end, and ask for the exit code.

package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"

	api "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

// An Engine is a connection to a Docker engine, safe for concurrent use.
type plainEngine struct{ api *client.Client }

// Dial prepares a connection to the engine that the environment names.
func Dial() (*plainEngine, error) {
	c, err := container.Dial()
	if err != nil {
		return nil, err
	}
	return &plainEngine{api: c}, nil
}

// Close releases idle connections.
func (e *plainEngine) Close() error { return e.api.Close() }

// Ping is one round trip to the engine.
func (e *plainEngine) Ping(ctx context.Context) error {
	_, err := e.api.Ping(ctx)
	return failed("ping", err)
}

// A Command is one exec.
type plainCommand struct {
	Args   []string
	Stdin  []byte // nil: no input is attached
	Stdout io.Writer
	Stderr io.Writer
}

// Exec runs c in the container and returns its exit code, once its output
// has been delivered.
func (e *plainEngine) Exec(ctx context.Context, name string, c plainCommand) (int, error) {
	made, err := e.api.ContainerExecCreate(ctx, name, api.ExecOptions{
		Cmd: c.Args, AttachStdin: c.Stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, failed("create exec", err)
	}
	stream, err := e.api.ContainerExecAttach(ctx, made.ID, api.ExecAttachOptions{})
	if err != nil {
		return 0, failed("attach to exec", err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, stream.Close)()
	sent := make(chan error, 1)
	go func() {
		var err error
		if c.Stdin != nil {
			if _, err = io.Copy(stream.Conn, bytes.NewReader(c.Stdin)); err == nil {
				err = stream.CloseWrite()
			}
		}
		sent <- err
	}()
	if _, err := stdcopy.StdCopy(c.Stdout, c.Stderr, stream.Reader); err != nil {
		stream.Close() // ends the sender
		<-sent
		return 0, failed("read from exec", err)
	}
	if err := <-sent; err != nil {
		return 0, failed("write to exec", err)
	}
	return e.exitCode(ctx, made.ID)
}

// exitCode asks until the engine has noted the end of the exec, which can be
// a moment after the end of its output.
func (e *plainEngine) exitCode(ctx context.Context, id string) (int, error) {
	for range 10_000 {
		i, err := e.api.ContainerExecInspect(ctx, id)
		if err != nil {
			return 0, failed("inspect exec", err)
		}
		if !i.Running {
			return i.ExitCode, nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	return 0, sandbox.Errorf(sandbox.CodeTimeout, "inspect exec", "the exec does not end although its output has")
}

// Start creates the container of p and starts it, with argv as its first
// process in place of the guest, and returns its id. The id is valid with an
// error too, unless it is empty: the caller removes the container.
func (e *plainEngine) Start(ctx context.Context, p container.Plan, argv []string) (string, error) {
	config := *p.Config
	config.Entrypoint, config.Cmd = slices.Clone(argv), nil
	made, err := e.api.ContainerCreate(ctx, &config, p.Host, p.Network, nil, p.Name)
	if err != nil {
		return "", failed("create container", err)
	}
	return made.ID, failed("start container", e.api.ContainerStart(ctx, made.ID, api.StartOptions{}))
}

func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return sandbox.Errorf(sandbox.CodeUnavailable, op, "the plain engine failed: %w", err)
}
