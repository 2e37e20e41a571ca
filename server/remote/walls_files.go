package remote

import (
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
)

// files finds the files of an open sandbox for the remote files handler.
func (h *Handler) files(r *http.Request) (sandbox.Files, context.Context, func(), error) {
	o, err := h.find(r)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, done := o.bound(r)
	files, err := o.served(ctx)
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return files, ctx, done, nil
}

// served returns the files of the sandbox, which are opened once.
func (o *handle) served(ctx context.Context) (sandbox.Files, error) {
	o.mu.Lock()
	files := o.opened
	o.mu.Unlock()
	if files != nil {
		return files, nil
	}
	s, ok := o.sb.(sandbox.FileServer)
	if !ok {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "files", Message: "the sandbox serves no files"}
	}
	files, err := s.Files(ctx)
	if err == nil {
		o.mu.Lock()
		o.opened = files
		o.mu.Unlock()
	}
	return files, err
}
