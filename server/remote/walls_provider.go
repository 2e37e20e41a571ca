package remote

import (
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

func (h *Handler) list(*http.Request) (any, error) {
	all := stream.Providers{Items: []stream.Provider{}}
	for _, name := range h.o.Providers.Names() {
		p, err := h.o.Providers.Get(name)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, stream.Provider{Name: name, Features: stream.Features(p.Features())})
	}
	return all, nil
}

func (h *Handler) provider(r *http.Request) (sandbox.Provider, error) {
	return h.o.Providers.Get(r.PathValue("provider"))
}

func (h *Handler) probe(r *http.Request) (any, error) {
	p, err := h.provider(r)
	if err != nil {
		return nil, err
	}
	if prober, ok := p.(interface{ Probe(context.Context) error }); ok {
		return nil, prober.Probe(r.Context())
	}
	return nil, nil
}

func (h *Handler) boxes(r *http.Request) (any, error) {
	p, err := h.provider(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	list, err := p.List(r.Context(), sandbox.Filter{
		Instance: q.Get("instance"), Tenant: q.Get("tenant"), Kind: sandbox.Kind(q.Get("kind")), Name: q.Get("name"),
	})
	if err != nil {
		return nil, err
	}
	all := stream.Boxes{Items: make([]stream.Box, len(list))}
	for i, info := range list {
		all.Items[i] = stream.Box(info)
	}
	return all, nil
}

func (h *Handler) inspect(r *http.Request) (any, error) {
	p, err := h.provider(r)
	if err != nil {
		return nil, err
	}
	info, err := p.Inspect(r.Context(), r.URL.Query().Get("name"))
	return stream.Box(info), err
}

func (h *Handler) create(r *http.Request) (any, error) {
	p, err := h.provider(r)
	if err != nil {
		return nil, err
	}
	var s stream.Spec
	if err := body(r, &s); err != nil {
		return nil, err
	}
	if err := h.lawful(p, s.Spec.Owner, s.Spec.Provider, s.Spec.Name); err != nil {
		return nil, err
	}
	ctx, done := h.call(r)
	defer done()
	info, err := p.Create(ctx, s.Whole())
	return stream.Box(info), err
}

// lawful refuses sandboxes of instances that the daemon was not configured with,
// and a Spec for another provider.
func (h *Handler) lawful(p sandbox.Provider, o sandbox.Owner, provider, name string) error {
	if provider != "" && provider != p.Name() {
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "serve walls", Field: "provider", Resource: name,
			Message: "the spec is for another provider than the address says",
		}
	}
	if h.o.Instances == nil || !h.o.Instances(o.Instance) {
		return &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "serve walls", Field: "owner.instance", Resource: name,
			Message: "the sandbox belongs to an instance that this daemon was not told of",
			Hint:    "whoever runs the daemon declares the instance of a remote orchestrator",
		}
	}
	return nil
}

// change calls do with the name of a sandbox, after checking its owner.
func (h *Handler) change(do func(sandbox.Provider, context.Context, string) error) reply {
	return func(r *http.Request) (any, error) {
		p, err := h.provider(r)
		if err != nil {
			return nil, err
		}
		name := r.URL.Query().Get("name")
		info, err := p.Inspect(r.Context(), name)
		switch {
		case sandbox.IsNotFound(err): // the provider returns its own error
		case err != nil:
			return nil, err
		default:
			if err := h.lawful(p, info.Owner, "", name); err != nil {
				return nil, err
			}
		}
		return nil, do(p, r.Context(), name)
	}
}

func pause(p sandbox.Provider, ctx context.Context, name string) error {
	pauser, err := asPauser(p)
	if err != nil {
		return err
	}
	return pauser.Pause(ctx, name)
}

func unpause(p sandbox.Provider, ctx context.Context, name string) error {
	pauser, err := asPauser(p)
	if err != nil {
		return err
	}
	return pauser.Unpause(ctx, name)
}

func asPauser(p sandbox.Provider) (sandbox.Pauser, error) {
	if pauser, ok := p.(sandbox.Pauser); ok {
		return pauser, nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "pause", Message: "the provider " + p.Name() + " cannot freeze sandboxes"}
}

// call returns the context of a call that another request can cancel, so that
// the caller still receives the result: a client that closes its connection does
// not.
func (h *Handler) call(r *http.Request) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(r.Context())
	id := r.Header.Get(stream.HeaderCall)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, taken := h.calls[id]; id == "" || len(id) > 64 || taken {
		return ctx, cancel
	}
	h.calls[id] = cancel
	return ctx, func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.calls, id)
	}
}

func (h *Handler) callOff(r *http.Request) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.calls[r.PathValue("call")]; cancel != nil {
		cancel()
	}
	return nil, nil // one that has ended needs no calling off
}
