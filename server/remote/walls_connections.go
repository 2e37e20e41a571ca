package remote

import (
	"net/http"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

func dial(o *handle, w http.ResponseWriter, r *http.Request) {
	d, ok := o.sb.(sandbox.Dialer)
	if !ok {
		api.Write(w, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "dial", Message: "the sandbox takes no connections"})
		return
	}
	leave, err := o.places.take("dial")
	if err != nil {
		api.Write(w, err)
		return
	}
	defer leave()
	q := r.URL.Query()
	ctx, cancel := o.bound(r)
	far, err := d.Dial(ctx, q.Get("network"), q.Get("addr"))
	cancel()
	if err != nil {
		api.Write(w, err)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		_ = far.Close() // the client has gone
		return
	}
	ctx, cancel = o.bound(r)
	defer cancel()
	stream.Relay(ctx, conn, far)
}

func listen(o *handle, w http.ResponseWriter, r *http.Request) {
	s, ok := o.sb.(sandbox.Listener)
	if !ok {
		api.Write(w, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "listen", Message: "nothing can be listened at in the sandbox"})
		return
	}
	leave, err := o.oneMore()
	if err != nil {
		api.Write(w, err)
		return
	}
	defer leave()
	q := r.URL.Query()
	ctx, cancel := o.bound(r)
	defer cancel()
	l, err := s.Listen(ctx, q.Get("network"), q.Get("addr"))
	if err != nil {
		api.Write(w, err)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		_ = l.Close() // the client has gone
		return
	}
	stream.ServeForward(ctx, conn, l, stream.ForwardOptions{
		Stream: o.h.o.Stream,
		Take:   o.places.wait,
	})
}

// oneMore counts a listener.
func (o *handle) oneMore() (leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listeners >= maxListeners {
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "listen", Message: "the sandbox has as many listeners as it may have", Hint: "close some", Retryable: true}
	}
	o.listeners++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.listeners--
	}, nil
}
