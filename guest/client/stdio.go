package client

import (
	"context"
	"io"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// carry starts to move bytes and to watch ctx.
func (p *process) carry(ctx context.Context) {
	if p.stdin != nil {
		go p.pumpIn() // not waited for: its reader may never return
	}
	p.delivery.Lock()
	p.carrying = true
	p.deliver()
	p.delivery.Unlock()
	if ctx.Done() != nil {
		p.unwatch = context.AfterFunc(ctx, func() {
			grace := min(max(p.cmd.Grace, 0), maxGrace)
			go p.insist(grace)
			p.kill(grace)
			p.settleAfter(grace + settleWithin)
			<-p.ended
			p.releaseAfter(settleWithin)
		})
	}
	p.arrived()
}

// fill tells that bytes came on a channel; it is called by the reader only.
func (p *process) fill(ch uint8) {
	p.delivery.Lock()
	defer p.delivery.Unlock()
	if !p.filled[ch] {
		p.filled[ch] = true
		p.deliver()
	}
}

// deliver starts to deliver what came. A channel gets a goroutine only when
// there is something for it: most commands say nothing on one of them, and
// many on neither. Precondition: delivery is held, and the end of the
// process has not arrived, or carry has not.
func (p *process) deliver() {
	for ch, w := range []io.Writer{wire.Stdout: p.cmd.Stdout, wire.Stderr: p.cmd.Stderr} {
		if !p.carrying || !p.filled[ch] || p.pumping[ch] {
			continue
		}
		if w == nil {
			w = io.Discard
		}
		p.pumping[ch] = true
		p.awaited.Add(1)
		go p.pumpOut(uint8(ch), p.boxes[ch], w)
	}
}

// arrived counts what Wait waits for: the end of the command, the return of
// carry, and each output that is to be delivered. The last one lets Wait
// return; it comes from whichever goroutine is last, so that a command
// without output needs none of its own.
func (p *process) arrived() {
	if p.awaited.Add(-1) > 0 {
		return
	}
	p.release()
	if p.unwatch != nil {
		p.unwatch()
	}
}

// release lets Wait return.
func (p *process) release() { p.released.Do(func() { close(p.waited) }) }

// releaseAfter lets Wait return some time after the end, whatever is
// delivered by then.
func (p *process) releaseAfter(d time.Duration) {
	timer := time.AfterFunc(d, p.giveUp)
	select {
	case <-p.waited:
		timer.Stop()
	default:
	}
}

// giveUp lets Wait return although output is not delivered.
func (p *process) giveUp() {
	p.writes.Stop(settleWithin)
	p.release()
}

// kill asks the guest to end the tree. When it cannot be asked the
// connection is at its end, and that kills the tree too.
func (p *process) kill(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	if err := p.control(ctx, killFrame(grace)); err != nil {
		p.c.end(errStuck)
	}
}

// insist has the guest answer a kill: after the grace period it must give
// signs of life, and after some more time the answer itself. Otherwise the
// connection is ended, and with it every wait of this process; a guest that
// is still there kills the tree because of that.
func (p *process) insist(grace time.Duration) {
	if comesWithin(p.ended, grace+swift) {
		return
	}
	for deadline := time.Now().Add(endWithin); time.Now().Before(deadline); {
		if !p.c.signOfLife(p.ended) {
			p.c.end(silentError())
		}
		if comesWithin(p.ended, signWithin) {
			return
		}
	}
	p.c.end(silentError())
}

// settleAfter drops output that is not taken some time after a kill, so
// that the guest can come to the end of what it has to send.
func (p *process) settleAfter(d time.Duration) {
	timer := time.NewTimer(d)
	go func() {
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			p.abandon()
		}
	}()
}

// abandon drops all output, pending and to come.
func (p *process) abandon() {
	for ch, b := range p.boxes {
		if b != nil {
			b.Discard()
			p.stop(uint8(ch))
		}
	}
}

// stop tells the guest that a channel is not read any more.
func (p *process) stop(ch uint8) {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	// An error is the connection's end, which needs no telling.
	_ = p.control(ctx, wire.Frame{Type: wire.TypeStop, Flags: ch})
}

// pumpOut delivers one channel. A writer that fails gets no more, as
// os/exec has it; the program does not notice.
func (p *process) pumpOut(ch uint8, box *wire.Inbox, w io.Writer) {
	defer p.arrived()
	for {
		chunk, err := box.Take()
		if err != nil {
			return
		}
		for len(chunk) > 0 {
			piece := chunk[:min(len(chunk), wire.MaxData)]
			chunk = chunk[len(piece):]
			if p.writes.Write(w, piece) != nil {
				box.Discard()
				p.stop(ch)
				return
			}
			if n := box.Consumed(len(piece)); n > 0 && p.grant(ch, n) != nil {
				return
			}
		}
	}
}

func (p *process) grant(ch uint8, n uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	return p.control(ctx, wire.Frame{Type: wire.TypeCredit, Flags: ch, Payload: wire.Credit{N: n}.Encode()})
}

// pumpIn sends standard input to its end, or until the program has ended or
// closed it.
func (p *process) pumpIn() {
	in := p.cmd.Stdin
	if in == nil { // a terminal without input
		p.input(nil, wire.FlagEOF)
		return
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := p.stdin.Take(len(buf))
		if err != nil {
			return
		}
		got, readErr := in.Read(buf[:n])
		p.stdin.Return(n - got)
		var last uint8
		if readErr != nil {
			last = wire.FlagEOF
		}
		if got == 0 && last == 0 {
			continue
		}
		if p.input(buf[:got], last) != nil || last != 0 {
			return
		}
	}
}

func (p *process) input(b []byte, eof uint8) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	return p.control(ctx, wire.Frame{Type: wire.TypeData, Flags: wire.Stdin | eof, Payload: b})
}
