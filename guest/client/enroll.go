package client

import (
	"context"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Enroll has the guest accept connections at its TCP port from a client that has the
// key of certificate, which is in DER, until the guest ends. It returns the port and the
// certificate that the guest has there, whose name is the BootID of the guest's Hello. A
// guest without such a port, and a connection that came over it, are
// [sandbox.CodeUnsupported].
func (c *Client) Enroll(ctx context.Context, certificate []byte) (wire.Enrolled, error) {
	if !c.hello.Has(wire.FeatureEnroll) {
		return wire.Enrolled{}, c.named(&sandbox.Error{Code: sandbox.CodeUnsupported, Op: "enroll", Message: "the guest has no port for clients with a certificate"})
	}
	silent := time.AfterFunc(answerWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	a := enrolled{answer: answer{result: make(chan error, 1)}, as: new(wire.Enrolled)}
	if _, err := c.open(ctx, wire.TypeEnroll, wire.Enroll{Certificate: certificate}.Encode(), a); err != nil {
		return wire.Enrolled{}, c.named(err)
	}
	select {
	case err := <-a.result:
		if err != nil {
			return wire.Enrolled{}, c.named(err)
		}
		return *a.as, nil
	case <-ctx.Done():
		return wire.Enrolled{}, c.named(contextError(ctx, "enroll"))
	}
}

// An enrolled is the stream of a request to be let in.
type enrolled struct {
	answer
	as *wire.Enrolled // readable once there is a result
}

func (e enrolled) frame(f wire.Frame) (bool, error) {
	switch f.Type {
	case wire.TypeEnrolled:
		var err error
		if *e.as, err = wire.DecodeEnrolled(f.Payload); err != nil {
			return false, err
		}
		e.result <- nil
		return true, nil
	case wire.TypeFailed:
		return e.answer.frame(f)
	}
	return false, wire.Violation("unexpected answer")
}
