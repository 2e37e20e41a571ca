package browser

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// watchInside is the host name sent to the noVNC server.
const watchInside = "localhost"

// serve handles one request. Nothing of it is logged: its path is a secret.
func (w *Watch) serve(rw http.ResponseWriter, r *http.Request) {
	want, refusal := watchClassify(headHttp(r), w.secrets, w.rules)
	if refusal == nil && want.kind == link && !w.redeem() {
		refusal = noCookie
	}
	if refusal != nil {
		guard(rw.Header(), "")
		refuseHttp(rw, refusal)
		return
	}
	guard(rw.Header(), " ws://"+r.Host) // r.Host was checked; some browsers take 'self' for http: only
	switch want.kind {
	case link:
		w.serveLink(rw)
	case file:
		w.serveFile(rw, r, want)
	case display:
		w.serveDisplay(rw, r, want)
	}
}

// guard sets the headers of every response. socket is where pages may find the
// display, beside their own origin.
func guard(h http.Header, socket string) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "+
		"font-src 'self'; media-src 'self'; connect-src 'self'"+socket+"; form-action 'none'; base-uri 'none'; "+
		"frame-ancestors 'none'; sandbox allow-scripts allow-same-origin allow-forms")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// serveLink sets the cookie and redirects to noVNC. The password is in the
// fragment, which browsers do not send.
func (w *Watch) serveLink(rw http.ResponseWriter) {
	end, _ := w.ctx.Deadline()
	http.SetCookie(rw, &http.Cookie{
		Name: cookieName, Value: w.secrets.cookie, Path: w.secrets.base(),
		MaxAge: max(1, int(time.Until(end)/time.Second)), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	words := url.Values{
		"autoconnect": {"1"}, "reconnect": {"true"}, "resize": {"scale"}, "view_only": {strconv.FormatBool(w.ViewOnly())},
		"path": {w.secrets.folder + "/" + socketName}, "password": {w.Password()},
	}
	rw.Header().Set("Location", w.secrets.base()+"vnc.html#"+words.Encode())
	rw.WriteHeader(http.StatusSeeOther)
}

// serveFile serves one file of noVNC.
func (w *Watch) serveFile(rw http.ResponseWriter, r *http.Request, want watchWish) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	get := w.o.File
	if get == nil {
		get = w.ask
	}
	body, err := get(ctx, want.path, fileBytes)
	switch {
	case sandbox.IsNotFound(err) && !w.lost.Load() && w.ctx.Err() == nil:
		refuseHttp(rw, watchNothing)
	case err != nil:
		w.fail(rw, err)
	default:
		rw.Header().Set("Content-Type", want.mime)
		_, _ = rw.Write(body) // a viewer that has disconnected needs no response
	}
}

// ask requests a file from the noVNC server.
func (w *Watch) ask(ctx context.Context, path string, limit int64) ([]byte, error) {
	c, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := askUpstream(ctx, c, upstreamQuestion{Method: http.MethodGet, Target: path, Host: watchInside, Limit: limit})
	switch {
	case err != nil:
		return nil, err
	case answer.Status == http.StatusNotFound:
		return nil, sandbox.Errorf(sandbox.CodeNotFound, watchOp, "the server inside has no such file")
	case answer.Status != http.StatusOK:
		return nil, sandbox.Errorf(sandbox.CodeExecution, watchOp, "the server inside answered with status %d", answer.Status)
	}
	return answer.Body, nil
}

// serveDisplay connects a viewer with the display until one of them ends.
func (w *Watch) serveDisplay(rw http.ResponseWriter, r *http.Request, want watchWish) {
	select {
	case w.viewers <- struct{}{}:
		defer func() { <-w.viewers }()
	default:
		refuseHttp(rw, &guardRefusal{Status: 503, Reason: "Too many look at this display."})
		return
	}
	server, err := w.dial(r.Context())
	if err != nil {
		w.fail(rw, err)
		return
	}
	client, err := acceptUpstream(rw, want.key)
	if err != nil {
		_ = server.Close()
		return
	}
	joinUpstream(w.ctx, client, server)
}

func (w *Watch) dial(ctx context.Context) (*upstreamStream, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	return dialUpstream(ctx, c, upstreamSocket{Target: "/" + socketName, Host: watchInside})
}

// connect dials the server inside. If the container was removed, the watch
// ends once the viewer has a response.
func (w *Watch) connect(ctx context.Context) (net.Conn, error) {
	c, err := w.o.Dial(ctx)
	if sandbox.IsNotFound(err) {
		w.lost.Store(true)
	}
	return c, err
}

// fail tells a viewer that there is no display. The cause is logged only: it
// does not belong on a page.
func (w *Watch) fail(rw http.ResponseWriter, err error) {
	w.log.WithError(err).Debug("a viewer of the browser got no answer")
	refuseHttp(rw, &guardRefusal{Status: http.StatusBadGateway, Reason: "The display cannot be reached."})
	if w.lost.Load() {
		w.cancel()
	}
}
