package operation

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
)

// holds checks what is true of everything that is handed back.
func (w *world) holds(d deed) {
	w.t.Helper()
	text, err := json.Marshal(d.Output)
	fetchMust(w.t, err)
	audit, err := json.Marshal(grant.Audit(d.err))
	fetchMust(w.t, err)
	effects, err := json.Marshal(d.effects)
	fetchMust(w.t, err)
	all := string(text) + string(audit) + string(effects)
	if d.err != nil {
		all += d.err.Error()
		var e *sandbox.Error
		if !errors.As(d.err, &e) || e.Code == sandbox.CodeInternal {
			w.t.Errorf("%v is no error of the table", d.err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.secrets {
		if len(s) < 10 || strings.Contains(all, s) || strings.Contains(all, "Basic ") {
			w.t.Errorf("credentials of the proxy are shown: %s", all)
		}
	}
	if int64(len(d.Data)) > d.Digest.Size || d.Truncated != (int64(len(d.Data)) < d.Digest.Size) {
		w.t.Errorf("%d bytes of %d, truncated %v", len(d.Data), d.Digest.Size, d.Truncated)
	}
	var in int64
	for _, e := range d.effects {
		in += e.BytesIn
	}
	if in != d.used.BytesIn {
		w.t.Errorf("effects tell of %d bytes, %d were counted", in, d.used.BytesIn)
	}
}

// wants fails the test unless the deed failed with the code, about what.
func (w *world) wants(d deed, code sandbox.Code, about string) {
	w.t.Helper()
	if sandbox.CodeOf(d.err) != code || code != "" && !strings.Contains(d.err.Error()+" "+field(d.err), about) {
		w.t.Fatalf("%v, want %q with %q", d.err, code, about)
	}
}

func field(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}

func retryable(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && e.Retryable
}

// once is a request without anything around it, for many at once.
func (w *world) once(g *grant.Guard, url string, size int64) error {
	return w.onceIn(context.Background(), g, url, size)
}

func (w *world) onceIn(ctx context.Context, g *grant.Guard, url string, size int64) error {
	v, err := g.Check(grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: url}, grant.State{Now: time.Now()})
	if err != nil {
		return err
	}
	account, err := w.ledger.Account(ctx, ledger.Limit{ID: "tenant:acme", Bound: budget.NoBound()})
	if err != nil {
		return err
	}
	m, ctx, err := budget.Start(ctx, account, budget.One(budget.Calls, 1))
	if err != nil {
		return err
	}
	defer m.End()
	out, err := w.Execute(ctx, &Call{Guard: g, Meter: m}, v)
	if err == nil && out.Digest.Size != size {
		return errors.New("not all of it")
	}
	return err
}

// doNothing is do for what the executor refuses before anything is sent.
func (w *world) doNothing(q wish) deed {
	w.t.Helper()
	d := w.do(q)
	if len(d.effects) != 0 || d.Response != nil {
		w.t.Errorf("%+v", d)
	}
	return d
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// oldTLS serves an obsolete version of TLS, and returns the port.
func oldTLS(t testing.TB) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.Config.ErrorLog = silent()
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	fetchMust(t, err)
	return port
}
