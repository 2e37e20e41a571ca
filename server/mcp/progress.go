package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/tools"
)

// maxMessage is how much of the last line of output a progress note contains, in
// bytes.
const maxMessage = 200

// progress returns a function that reports to the client how far its call is,
// where the client asked for that, and a function that ends the reports.
// Progress is the number of seconds that have passed. The server sends notes
// also while the call makes no progress, so that the client sees that the call
// is alive.
func (x *session) progress(ctx context.Context, r *mcp.CallToolRequest) (tell func(tools.Progress), done func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return nil, func() {}
	}
	p := &progress{ctx: ctx, session: r.Session, token: token, begun: time.Now(), last: -1}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(x.o.Heartbeat)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-ticks.C:
				p.note(nil)
			}
		}
	}()
	return func(now tools.Progress) { p.note(&now) }, func() {
		close(stop)
		<-stopped
	}
}

type progress struct {
	ctx     context.Context
	session *mcp.ServerSession
	token   any
	begun   time.Time

	mu      sync.Mutex
	last    float64 // which has to grow from note to note
	message string
}

// note reports a step to the client, or with nil that the last one goes on.
func (p *progress) note(step *tools.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if step != nil {
		p.message = said(*step)
	}
	now := time.Since(p.begun).Seconds()
	if now <= p.last {
		return
	}
	p.last = now
	message := p.message
	if message == "" {
		message = fmt.Sprintf("running for %.0f s", now)
	}
	// An error means that the client has gone, which the call notices by itself.
	_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: now, Message: message})
}

// said describes a step in a sentence.
func said(s tools.Progress) string {
	line := termsafe.Line(s.Message)
	if len(line) > maxMessage {
		line = termsafe.Line(line[:maxMessage]) + "…"
	}
	if s.Bytes == 0 {
		return line
	}
	out := fmt.Sprintf("%d lines, %d bytes", s.Lines, s.Bytes)
	if line != "" {
		out += ": " + line
	}
	return out
}
