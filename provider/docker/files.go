package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// Files implements [sandbox.FileServer]. Paths are absolute ones inside, and
// each is confined to its mount of the Spec; a read-only mount is read-only
// here whatever the owner of its files. The files end with the handle. For a
// container whose guest serves no files, Files returns
// [sandbox.CodeUnsupported].
func (h *handle) Files(context.Context) (sandbox.Files, error) {
	table, err := fsbridge.NewMountTable(h.spec.Mounts, h.spec.Tmpfs)
	if err != nil {
		return nil, err
	}
	files, err := h.guest.Files(func(path string) (client.Spot, error) {
		p, err := table.Inside(path)
		return client.Spot{Root: p.Root.Target, Rel: p.Rel, ReadOnly: p.Root.ReadOnly}, err
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

var _ sandbox.FileServer = (*handle)(nil)
