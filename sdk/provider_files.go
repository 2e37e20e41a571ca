package sdk

import (
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
)

// A fileServer is a handle with files.
type fileServer struct{ h *handle }

// Files implements sandbox.FileServer.
func (s fileServer) Files(ctx context.Context) (sandbox.Files, error) {
	f, err := openFiles(ctx, providerCaller(s), s.h.path("/files"))
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A caller makes requests about files within the life of a handle.
type providerCaller struct{ h *handle }

// Call implements filing.Caller.
func (c providerCaller) Call(ctx context.Context, q Request, out any) error {
	return c.h.call(ctx, q, out)
}

// Do implements filing.Caller.
func (c providerCaller) Do(ctx context.Context, q Request) (*http.Response, func(), error) {
	bound, done, err := c.h.within(ctx, q.Op)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.h.p.c.Do(bound, q)
	if err != nil {
		done()
		return nil, nil, c.h.honest(ctx, q.Op, err)
	}
	return a, done, nil
}
