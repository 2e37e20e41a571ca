package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// order alternates the addresses of both families, starting with that of the
// first answer, and drops those beyond the limit.
func order(targets []netip.AddrPort) []netip.AddrPort {
	var first, second []netip.AddrPort
	for _, t := range targets {
		if t.Addr().Is4() == targets[0].Addr().Is4() {
			first = append(first, t)
		} else {
			second = append(second, t)
		}
	}
	out := make([]netip.AddrPort, 0, len(targets))
	for i := range len(first) + len(second) {
		if i < len(first) {
			out = append(out, first[i])
		}
		if i < len(second) {
			out = append(out, second[i])
		}
	}
	return out[:min(len(out), maxAddrs)]
}

// race connects to the first address that answers. The next one is tried when
// one has failed or is not connected after its head start. The other attempts
// are cancelled, and their connections are closed.
//
// The error is the first one, with its address.
func race(ctx context.Context, targets []netip.AddrPort, connect func(context.Context, netip.AddrPort) (net.Conn, error)) (net.Conn, netip.AddrPort, error) {
	type result struct {
		conn net.Conn
		at   netip.AddrPort
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result) // unbuffered, so that no connection is left in it
	timer := time.NewTimer(0)
	defer timer.Stop()
	var first *result
	for next, running := 0, 0; ; {
		select {
		case <-timer.C:
			if next == len(targets) {
				continue
			}
			to := targets[next]
			next, running = next+1, running+1
			timer.Reset(headStart)
			go func() {
				c, err := connect(ctx, to)
				select {
				case results <- result{c, to, err}:
				case <-ctx.Done():
					if err == nil {
						_ = c.Close()
					}
				}
			}()
		case got := <-results:
			if got.err == nil {
				return got.conn, got.at, nil
			}
			if first == nil {
				first = &got
			}
			if running--; running == 0 && next == len(targets) {
				return nil, first.at, first.err
			}
			timer.Reset(0)
		case <-ctx.Done():
			if first == nil {
				first = &result{at: targets[0]}
			}
			return nil, first.at, errors.Join(context.Cause(ctx), first.err)
		}
	}
}
