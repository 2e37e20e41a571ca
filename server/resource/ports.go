// This file holds the resource that connects clients to programs that listen
// inside a sandbox.

package resource

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

const (
	// portsMost is how many connections to one sandbox may be open at a time.
	portsMost = 256
	// dialWithin is how long a program inside may take to accept a connection.
	dialWithin = 30 * time.Second
)

// A portsLender gives access to running sandboxes; *manager.Manager is one.
type portsLender interface {
	Finder
	Lend(ctx context.Context, req manager.Request, fn func(sandbox.Sandbox, sandbox.Spec) error) error
}

// A portsResource has the route.
type portsResource struct {
	lender portsLender
	seats  *watchSeats
}

// NewPorts returns the resource.
func NewPorts(l portsLender) *portsResource {
	return &portsResource{lender: l, seats: newSeats(portsMost, "dial", "connections to", "close one of them")}
}

// Routes implements [Resource].
func (x *portsResource) Routes() []Route {
	return takingSettings([]Route{{
		ID: "dialPort", Method: http.MethodGet, Path: api.Prefix + "/sandboxes/{name}/ports/{port}", Tag: "ports", Role: token.Session,
		Summary: "Connect to a TCP port inside over a WebSocket", Socket: true, Timeout: Endless,
		Doc: "The port is one of the loopback interface inside the sandbox: nothing outside is reached. Binary frames are the bytes of the connection, " +
			`and the text frame {"type":"eof"} ends one direction. The sandbox is in use until the connection ends. Where nothing listens the answer is 503.`,
		Errors: []int{404, 409, 429, 501, 503, 504}, Do: x.dial,
	}})
}

func (x *portsResource) dial(c *Call) (any, error) {
	port, err := strconv.ParseUint(c.Path("port"), 10, 16)
	if err != nil || port == 0 || c.Path("port") != strconv.FormatUint(port, 10) {
		return nil, Invalid("port", "is no number from 1 to 65535")
	}
	at, err := Sandboxed(c, x.lender)
	if err != nil {
		return nil, err
	}
	leave, err := x.seats.Take(at.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	sent := false
	req := manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("exec")}
	err = x.lender.Lend(c.Context(), req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		far, err := dialInside(c.Context(), sb, int(port))
		if err != nil {
			return err
		}
		conn, err := websocket.Accept(c.Writer, c.Request, nil)
		sent = true
		if err != nil {
			_ = far.Close() // the handshake has failed, and Accept has answered
			return nil
		}
		stream.Relay(c.Context(), conn, far)
		return nil
	})
	if sent { // an error after that has no receiver: the connection was the client's
		return Sent{}, nil
	}
	return nil, err
}

// dialInside connects to the port of the loopback interface of sb, by either
// family of addresses.
func dialInside(ctx context.Context, sb sandbox.Sandbox, port int) (net.Conn, error) {
	d, ok := sb.(sandbox.Dialer)
	if !ok {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "dial", Message: "the provider of this sandbox connects to nothing inside"}
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	conn, err := d.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if six, again := d.Dial(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(port))); again == nil {
		return six, nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "dial", Field: "port", Resource: strconv.Itoa(port), Message: "no program in the sandbox listens at the port", Retryable: true, Err: err,
			Hint: "start one that listens at 127.0.0.1 or ::1, and try again",
		}
	}
	return nil, err
}
