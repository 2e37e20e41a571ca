package bridge

import (
	"context"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser/door"
	"github.com/bulkhead-dev/sandbox/browser/front"
	"github.com/bulkhead-dev/sandbox/browser/relay"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// inside is whom the browser takes itself for. It answers to no names but
// this one.
const inside = "localhost"

// maxReason bounds what a client is told of a failure, in bytes.
const maxReason = 2 << 10

// serve handles one request. Nothing of it is logged: its path is a secret.
func (b *Bridge) serve(w http.ResponseWriter, r *http.Request) {
	h := front.Head(r)
	want, refusal := classify(h, b.token, b.rules)
	if refusal == noToken && b.wrong.tooMany(h.Peer) {
		refusal = stop
	}
	if refusal != nil {
		front.Refuse(w, refusal)
		return
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		front.Refuse(w, &door.Refusal{Status: 503, Reason: "Too many clients use this browser."})
		return
	}
	if want.kind == socket {
		b.serveSocket(w, r, want)
		return
	}
	b.serveAnswer(w, r, want)
}

// serveAnswer asks the browser and answers with what it said, made anew.
func (b *Bridge) serveAnswer(w http.ResponseWriter, r *http.Request, want wish) {
	body, err := b.ask(r.Context(), want)
	if err == nil {
		body, err = rebuild(want.kind, body, b.place(r.Host))
	}
	if err != nil {
		b.fail(w, err)
		return
	}
	front.Plain(w.Header())
	if want.kind != activated && want.kind != closed {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	}
	_, _ = w.Write(body) // whoever has gone needs no answer
}

// ask puts one question to the browser, which it starts if needed.
func (b *Bridge) ask(ctx context.Context, want wish) ([]byte, error) {
	up, err := b.upstream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = up.Close() }()
	ctx, cancel := context.WithTimeout(ctx, b.o.Limits.Answer)
	defer cancel()
	c, err := up.Dial(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	answer, err := relay.Ask(ctx, c, relay.Question{
		Method: want.method, Target: want.target, Host: inside, Limit: b.o.Limits.AnswerBytes,
	})
	switch {
	case err != nil:
		return nil, err
	case answer.Status == http.StatusOK:
		return answer.Body, nil
	case answer.Status == http.StatusNotFound, answer.Status == http.StatusInternalServerError:
		return nil, sandbox.Errorf(sandbox.CodeNotFound, op, "the browser knows no such page")
	}
	return nil, sandbox.Errorf(sandbox.CodeExecution, op, "the browser answered with status %d", answer.Status)
}

// serveSocket joins a client with the browser until one of them ends.
func (b *Bridge) serveSocket(w http.ResponseWriter, r *http.Request, want wish) {
	up, err := b.upstream(r.Context())
	if err != nil {
		b.fail(w, err)
		return
	}
	defer func() { _ = up.Close() }()
	server, err := b.dial(r.Context(), up, want.target)
	if sandbox.IsNotFound(err) && strings.HasPrefix(want.target, wholeBrowser) {
		server, err = b.dialAnew(r.Context(), up, want.target, err)
	}
	if err != nil {
		b.fail(w, err)
		return
	}
	client, err := relay.Accept(w, want.key)
	if err != nil {
		_ = server.Close()
		return
	}
	b.socks.Add(1)
	defer b.socks.Add(-1)
	relay.Join(b.ctx, client, server)
}

// wholeBrowser begins the address of the WebSocket of a browser, before its id.
const wholeBrowser = "/devtools/browser/"

// dialAnew opens the WebSocket of the browser that runs now for a client with
// the address of one that has ended: a browser has another id after each start,
// and there is one for each bridge. missing is why the address is no good.
func (b *Bridge) dialAnew(ctx context.Context, up Upstream, old string, missing error) (*relay.Stream, error) {
	asked, cancel := context.WithTimeout(ctx, b.o.Limits.Answer)
	defer cancel()
	c, err := up.Dial(asked)
	if err != nil {
		return nil, unreachable(err)
	}
	answer, err := relay.Ask(asked, c, relay.Question{Method: http.MethodGet, Target: "/json/version", Host: inside, Limit: b.o.Limits.AnswerBytes})
	if err != nil {
		return nil, err
	}
	v, err := readVersion(answer.Body, "")
	if err != nil || v.WebSocket == "" || v.WebSocket == old {
		return nil, missing
	}
	return b.dial(ctx, up, v.WebSocket)
}

// dial opens the browser's WebSocket.
func (b *Bridge) dial(ctx context.Context, up Upstream, target string) (*relay.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.Limits.Answer)
	defer cancel()
	c, err := up.Dial(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	return relay.Dial(ctx, c, relay.Socket{Target: target, Host: inside})
}

// upstream opens the browser. When it has gone for good the bridge ends, as
// soon as the caller has called endIfLost.
func (b *Bridge) upstream(ctx context.Context) (Upstream, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.Limits.Open)
	defer cancel()
	up, err := b.o.Upstream(ctx)
	if sandbox.IsNotFound(err) {
		b.lost.Store(true)
	}
	if err != nil {
		return nil, err
	}
	b.watch()
	return up, nil
}

// endIfLost ends the bridge of a browser that is no more. Whoever noticed has
// had an answer by then.
func (b *Bridge) endIfLost() {
	if b.lost.Load() {
		b.log.Info("the browser is not there any more, its bridge ends")
		b.cancel()
	}
}

// unreachable is what a browser that does not listen means to a client: it is
// not there now, not that something was not found.
func unreachable(err error) error {
	return sandbox.Errorf(sandbox.CodeUnavailable, op, "the browser cannot be reached: %w", err)
}

// fail tells a client that showed its token what went wrong.
func (b *Bridge) fail(w http.ResponseWriter, err error) {
	b.log.WithError(err).Debug("a client of the browser got no answer")
	status := sandbox.CodeOf(err).HTTPStatus()
	if status == http.StatusInternalServerError {
		status = http.StatusBadGateway
	}
	reason := termsafe.String(err.Error())
	front.Refuse(w, &door.Refusal{Status: status, Reason: reason[:min(len(reason), maxReason)]})
	b.endIfLost()
}
