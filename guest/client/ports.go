package client

import (
	"context"
	"net/netip"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Ports implements [sandbox.PortLister]. What it returns is what the guest says, of
// programs that may be hostile: bounded, and no more than a report.
func (c *Client) Ports(ctx context.Context) ([]sandbox.ListeningPort, error) {
	if !c.hello.Has(wire.FeaturePorts) {
		return nil, c.named(&sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "list ports", Message: "the guest of the sandbox does not list ports",
			Hint: "recreate the sandbox to get the current guest",
		})
	}
	silent := time.AfterFunc(answerWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	a := portList{answer: answer{result: make(chan error, 1)}, list: new([]wire.Port)}
	if _, err := c.open(ctx, wire.TypePorts, nil, a); err != nil {
		return nil, c.named(err)
	}
	select {
	case err := <-a.result:
		if err != nil {
			return nil, c.named(err)
		}
	case <-ctx.Done():
		return nil, c.named(contextError(ctx, "list ports"))
	}
	out := make([]sandbox.ListeningPort, 0, len(*a.list))
	for _, p := range *a.list {
		addr, _ := netip.AddrFromSlice([]byte(p.At.Host))
		out = append(out, sandbox.ListeningPort{
			Addr: netip.AddrPortFrom(addr, p.At.Port), PID: int(p.PID),
			Command: strings.ToValidUTF8(strings.TrimSpace(strings.ReplaceAll(p.Command, "\x00", " ")), "\uFFFD"),
		})
	}
	return out, nil
}

// A portList is the stream of a request for ports.
type portList struct {
	answer
	list *[]wire.Port // readable once there is a result
}

func (p portList) frame(f wire.Frame) (bool, error) {
	switch f.Type {
	case wire.TypePortList:
		var err error
		if *p.list, err = wire.DecodePorts(f.Payload); err != nil {
			return false, err
		}
		p.result <- nil
		return true, nil
	case wire.TypeFailed:
		return p.answer.frame(f)
	}
	return false, wire.Violation("unexpected answer")
}
