package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// maxForwarded is how many connections a forward has open at a time. Each has two
// descriptors.
const maxForwarded = 16384

// forwardGCPercent is less than the usual one: each connection leaves much garbage
// behind when it is made, and little afterwards.
const forwardGCPercent = 50

func (a *app) portForwardCommand() *ucli.Command {
	address := text{value: "127.0.0.1", check: ipAddress}
	return &ucli.Command{
		Name:      "forward",
		Usage:     "listen on this machine and pass connections on to a port inside",
		UsageText: "sandbox port forward [--address IP] [LOCAL:]PORT",
		Description: "It listens at the loopback interface alone, at the port LOCAL, which is PORT unless it is given; 0 is any that is\n" +
			"free. It prints the address as soon as it listens and stays until it is interrupted, which is exit status 0. The\n" +
			"program inside may start later: a connection that it does not accept is closed, and standard error says why.\n" +
			"At most 16384 connections are open at a time.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "address", Usage: "listen at this `IP` of the machine, such as 0.0.0.0; a program that reaches it reaches the port", Value: &address},
		},
		Action: func(c *ucli.Context) error {
			if c.Args().Len() != 1 {
				return usagef("port forward", "exactly one port is needed: [LOCAL:]PORT")
			}
			local, port, err := mapping(c.Args().First())
			if err != nil {
				return err
			}
			return a.withPorts(func(s PortStore) error {
				return a.forward(c.Context, s, net.JoinHostPort(address.value, strconv.Itoa(local)), port)
			})
		},
	}
}

func ipAddress(s string) error {
	if _, err := netip.ParseAddr(s); err != nil {
		return errors.New("it must be an IP address")
	}
	return nil
}

// mapping reads [LOCAL:]PORT.
func mapping(s string) (local, port int, err error) {
	from, to, both := strings.Cut(s, ":")
	if !both {
		port, err = portOf("port forward", s, 1)
		return port, port, err
	}
	if local, err = portOf("port forward", from, 0); err != nil {
		return 0, 0, err
	}
	port, err = portOf("port forward", to, 1)
	return local, port, err
}

// forwardView is what port forward prints.
type forwardView struct {
	Sandbox string `json:"sandbox"`
	Address string `json:"address"` // of this machine
	Port    int    `json:"port"`    // inside
}

// forward passes connections on until ctx ends.
func (a *app) forward(ctx context.Context, s PortStore, at string, port int) error {
	req := a.portRequest()
	found, err := s.Find(ctx, req) // before it listens, so that a wrong session is an error at once
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "port forward", Field: "port", Resource: at, Message: "this machine does not let the program listen there", Hint: "name another port: LOCAL:PORT, or 0:PORT for any that is free", Err: err}
	}
	defer l.Close()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(forwardGCPercent)
	}
	a.warnAlone(found)
	v := forwardView{Sandbox: found.Sandbox, Address: l.Addr().String(), Port: port}
	if a.globals.json() {
		err = writeJSONLine(a.Stdout, v)
	} else {
		_, err = fmt.Fprintf(a.Stdout, "listening at %s for port %d of %s\n", v.Address, port, cell(found.Sandbox))
	}
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	f := &forwarder{a: a, s: s, req: req, port: port, seats: make(chan struct{}, maxForwarded), relay: newRelay()}
	defer f.relay.close()
	defer f.open.Wait()
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	for {
		near, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = near.Close()
			}
			return WatchEnd(ctx)
		}
		if err != nil {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "port forward", Resource: at, Message: "no more connections can be accepted", Err: err}
		}
		f.take(ctx, near)
	}
}

// A forwarder passes connections on to one port.
type forwarder struct {
	a     *app
	s     PortStore
	req   manager.Request
	port  int
	seats chan struct{}
	relay *relay
	open  sync.WaitGroup // connections that are being made

	mu sync.Mutex // held while a failure is reported
}

// take passes a connection on in the background.
func (f *forwarder) take(ctx context.Context, near net.Conn) {
	select {
	case f.seats <- struct{}{}:
	default:
		_ = near.Close()
		f.report(&sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "port forward", Message: fmt.Sprintf("a connection is refused: %d are open", maxForwarded), Retryable: true, Hint: "close one of them"})
		return
	}
	f.open.Go(func() {
		far, err := f.s.Dial(ctx, f.req, f.port)
		if err != nil {
			if ctx.Err() == nil {
				f.report(err) // first: whose connection is closed may interrupt the forward
			}
			_ = near.Close()
			<-f.seats
			return
		}
		f.relay.join(near, far, func() { <-f.seats })
	})
}

func (f *forwarder) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.a.report(err)
}
