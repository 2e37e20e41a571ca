//go:build linux

package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/guest/client"
)

// passedByte is what each message of the channel holds beside its descriptors.
const passedByte = 'c'

// Connect opens one more session with the guest, with a channel for
// descriptors beside it. Commands of one session end with it, those of others
// do not.
func (w *Instance) Connect(ctx context.Context, o client.Options) (*client.Client, error) {
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a connection: %w", err)
	}
	ours := os.NewFile(uintptr(stream[0]), "guest")
	side, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		ours.Close()
		unix.Close(stream[1])
		return nil, fmt.Errorf("make a connection: %w", err)
	}
	o.Descriptors = os.NewFile(uintptr(side[0]), "descriptors")
	err = w.pass(stream[1], side[1])
	unix.Close(stream[1])
	unix.Close(side[1])
	var conn net.Conn
	if err == nil {
		conn, err = net.FileConn(ours)
	}
	ours.Close() // conn has its own copy
	if err != nil {
		o.Descriptors.Close()
		return nil, w.Explain(ctx, err)
	}
	c, err := client.New(ctx, conn, o)
	if err != nil {
		return nil, w.Explain(ctx, err)
	}
	return c, nil
}

// pass sends a connection and what is beside it over the channel.
func (w *Instance) pass(fds ...int) error {
	raw, err := w.channel.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(channel uintptr) {
		sendErr = unix.Sendmsg(int(channel), []byte{passedByte}, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if err = errors.Join(err, sendErr); err != nil {
		return fmt.Errorf("pass a connection: %w", err)
	}
	return nil
}

// Explain adds what the instance has complained of to the error of a connection
// that was lost.
func (w *Instance) Explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	w.awaitComplaint(ctx)
	select {
	case <-w.ended:
		return &Failed{Program: w.program, Stderr: w.Stderr(), Cause: err}
	default:
		return err
	}
}
