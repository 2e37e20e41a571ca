package browser

import (
	"context"
	"io"
	"time"
)

// Join carries bytes between two streams, without a look at them, until the
// first of these: both directions have ended, one has failed, ctx has ended,
// or one has ended and the other not within a moment. Then it closes both and
// waits until nothing of it is left. Who does not read makes the other side
// wait; nothing is kept but one buffer each way.
//
// It differs from the pump of the way out: a client may be silent for hours,
// and no half of a WebSocket has a life of its own.
func joinUpstream(ctx context.Context, a, b *upstreamStream) { join(ctx, a, b, grace) }

// join is Join with the time that one direction may go on without the other.
func join(ctx context.Context, a, b *upstreamStream, grace time.Duration) {
	done := make(chan error, 2)
	go func() { done <- carry(a, b) }()
	go func() { done <- carry(b, a) }()
	left := 2
	var late <-chan time.Time
	for left > 0 {
		select {
		case err := <-done:
			left--
			if err == nil && left > 0 {
				timer := time.NewTimer(grace)
				defer timer.Stop()
				late = timer.C
				continue
			}
		case <-ctx.Done():
		case <-late:
		}
		break
	}
	_ = a.Close()
	_ = b.Close()
	for range left {
		<-done
	}
}

// carry hands on what one side says, and its end.
func carry(to, from *upstreamStream) error {
	if _, err := io.Copy(to.Conn, from.rest); err != nil {
		return err
	}
	return to.CloseWrite()
}
