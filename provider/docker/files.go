package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge/mountpath"
)

// Files implements [sandbox.FileServer]. Paths are absolute ones inside, and
// each is kept to its mount of the Spec. The files end with the handle. A
// container whose guest has none is [sandbox.CodeUnsupported].
func (h *handle) Files(context.Context) (sandbox.Files, error) {
	table, err := mountpath.New(h.spec.Mounts, h.spec.Tmpfs)
	if err != nil {
		return nil, err
	}
	files, err := h.guest.Files(func(path string) (root, rel string, err error) {
		p, err := table.Inside(path)
		return p.Root.Target, p.Rel, err
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

var _ sandbox.FileServer = (*handle)(nil)
