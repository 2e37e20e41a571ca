package checkpoint

import (
	"context"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/bulkhead-dev/sandbox"
)

// Archive opens the folder that the checkpoint with that id or name keeps as an
// archive of that name, as a tar stream. The caller closes it.
func (s *Store) Archive(_ context.Context, ref, name string) (io.ReadCloser, error) {
	r, err := s.find(ref, nil)
	if err != nil {
		return nil, err
	}
	t, ok := r.tree(name)
	if !ok || t.Archive == "" {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "read checkpoint", Resource: r.ID, Message: "the checkpoint has no archive " + name}
	}
	f, err := os.Open(s.archivePath(t.Archive))
	if err != nil {
		return nil, fail("read checkpoint", r.ID, err)
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		_ = f.Close()
		return nil, fail("read checkpoint", r.ID, err)
	}
	return &archive{z, f}, nil
}

// An archive is the content of a compressed file.
type archive struct {
	*zstd.Decoder
	f *os.File
}

func (a *archive) Close() error {
	a.Decoder.Close()
	return a.f.Close()
}
