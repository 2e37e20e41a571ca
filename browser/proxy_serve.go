package browser

import (
	"context"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// proxyInside is the host name sent to the browser, the only name it answers
// to.
const proxyInside = "localhost"

// maxReason bounds the error text sent to a client, in bytes.
const maxReason = 2 << 10

// serve handles one request. Nothing of it is logged: its path is a secret.
func (b *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	h := headHttp(r)
	want, refusal := proxyClassify(h, b.token, b.rules)
	if refusal == noToken && b.wrong.tooMany(h.Peer) {
		refusal = stop
	}
	if refusal != nil {
		refuseHttp(w, refusal)
		return
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		refuseHttp(w, &guardRefusal{Status: 503, Reason: "Too many clients use this browser."})
		return
	}
	if want.kind == socket {
		b.serveSocket(w, r, want)
		return
	}
	b.serveAnswer(w, r, want)
}

// serveAnswer asks the browser and sends its rebuilt answer.
func (b *Proxy) serveAnswer(w http.ResponseWriter, r *http.Request, want proxyWish) {
	body, err := b.ask(r.Context(), want)
	if err == nil {
		body, err = rebuild(want.kind, body, b.place(r.Host))
	}
	if err != nil {
		b.fail(w, err)
		return
	}
	plainHttp(w.Header())
	if want.kind != activated && want.kind != closed {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	}
	_, _ = w.Write(body) // a client that has disconnected needs no response
}

// ask sends one request to the browser, which it starts if needed.
func (b *Proxy) ask(ctx context.Context, want proxyWish) ([]byte, error) {
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
	answer, err := askUpstream(ctx, c, upstreamQuestion{
		Method: want.method, Target: want.target, Host: proxyInside, Limit: b.o.Limits.AnswerBytes,
	})
	switch {
	case err != nil:
		return nil, err
	case answer.Status == http.StatusOK:
		return answer.Body, nil
	case answer.Status == http.StatusNotFound, answer.Status == http.StatusInternalServerError:
		return nil, sandbox.Errorf(sandbox.CodeNotFound, proxyOp, "the browser knows no such page")
	}
	return nil, sandbox.Errorf(sandbox.CodeExecution, proxyOp, "the browser answered with status %d", answer.Status)
}

// serveSocket connects a client with the browser until one of them ends.
func (b *Proxy) serveSocket(w http.ResponseWriter, r *http.Request, want proxyWish) {
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
	client, err := acceptUpstream(w, want.key)
	if err != nil {
		_ = server.Close()
		return
	}
	b.socks.Add(1)
	defer b.socks.Add(-1)
	joinUpstream(b.ctx, client, server)
}

// wholeBrowser is the path prefix of a browser's own WebSocket, before its id.
const wholeBrowser = "/devtools/browser/"

// dialAnew opens the WebSocket of the running browser for a client with the
// URL of an earlier one: a browser has another id after each start, and a
// proxy serves only one browser. missing is the error of the first attempt.
func (b *Proxy) dialAnew(ctx context.Context, up Upstream, old string, missing error) (*upstreamStream, error) {
	asked, cancel := context.WithTimeout(ctx, b.o.Limits.Answer)
	defer cancel()
	c, err := up.Dial(asked)
	if err != nil {
		return nil, unreachable(err)
	}
	answer, err := askUpstream(asked, c, upstreamQuestion{Method: http.MethodGet, Target: "/json/version", Host: proxyInside, Limit: b.o.Limits.AnswerBytes})
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
func (b *Proxy) dial(ctx context.Context, up Upstream, target string) (*upstreamStream, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.Limits.Answer)
	defer cancel()
	c, err := up.Dial(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	return dialUpstream(ctx, c, upstreamSocket{Target: target, Host: proxyInside})
}

// upstream opens the browser. If the browser was removed, the proxy ends once
// the caller has called endIfLost.
func (b *Proxy) upstream(ctx context.Context) (Upstream, error) {
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

// endIfLost ends the proxy of a removed browser. The client that noticed it
// has its response by then.
func (b *Proxy) endIfLost() {
	if b.lost.Load() {
		b.log.Info("the browser is not there any more, its bridge ends")
		b.cancel()
	}
}

// unreachable returns the client's error for a browser that does not listen:
// the browser is unavailable now, which is not the same as not found.
func unreachable(err error) error {
	return sandbox.Errorf(sandbox.CodeUnavailable, proxyOp, "the browser cannot be reached: %w", err)
}

// fail sends an error to a client that has shown its token.
func (b *Proxy) fail(w http.ResponseWriter, err error) {
	b.log.WithError(err).Debug("a client of the browser got no answer")
	status := sandbox.CodeOf(err).HTTPStatus()
	if status == http.StatusInternalServerError {
		status = http.StatusBadGateway
	}
	reason := termsafe.String(err.Error())
	refuseHttp(w, &guardRefusal{Status: status, Reason: reason[:min(len(reason), maxReason)]})
	b.endIfLost()
}
