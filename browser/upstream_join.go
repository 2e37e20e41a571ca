package browser

import (
	"context"
	"io"
	"time"
)

// joinUpstream copies bytes between two streams, without inspecting them,
// until both directions have ended, one has failed, ctx has ended, or one
// direction has ended and the other does not end within grace. Then it closes
// both and waits until all copying has ended. A slow reader blocks the other
// side; only one buffer is kept for each direction.
//
// It differs from the pump of the egress proxy: a client may be silent for
// hours, and a WebSocket has no use for one direction alone.
func joinUpstream(ctx context.Context, a, b *upstreamStream) { join(ctx, a, b, grace) }

// join is joinUpstream with the time that one direction may go on without the
// other.
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

// carry copies from one side to the other and then closes the writing side.
func carry(to, from *upstreamStream) error {
	if _, err := io.Copy(to.Conn, from.rest); err != nil {
		return err
	}
	return to.CloseWrite()
}
