package fsbridge

import (
	"context"
	"io"
	"strconv"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// readHeader precedes the content of a file that could be opened.
const readHeader = "ok\n"

// Read returns the content from offset on, at most limit bytes unless limit
// is negative. The content streams while it is read; ctx counts until
// Close. An error in the middle is returned by the reader instead of io.EOF.
func (f *scriptFiles) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	p, err := f.table.Inside(path)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, NewError("read", path, syscall.EINVAL)
	}
	dir, base := p.Split()
	ctx, cancel := context.WithCancel(ctx)
	pr, pw := io.Pipe()
	s := &stream{pipe: pr, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		err := f.run(ctx, call{
			op: "read", path: path, script: readScript, stdout: pw,
			args: []string{p.Root.Target, dir, base, strconv.FormatInt(offset, 10), strconv.FormatInt(limit, 10)},
		})
		pw.CloseWithError(err)
	}()
	header := make([]byte, len(readHeader))
	if _, err := io.ReadFull(pr, header); err != nil {
		s.Close()
		if sandbox.CodeOf(err) == sandbox.CodeInternal {
			err = confused("read", path, "the file script gave no complete answer")
		}
		return nil, err
	}
	if string(header) != readHeader {
		s.Close()
		return nil, confused("read", path, "the file script gave a strange answer")
	}
	return s, nil
}

// A stream is the content of one file that is being read.
type stream struct {
	pipe   *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *stream) Read(p []byte) (int, error) { return s.pipe.Read(p) }

// Close ends the script and waits for its end.
func (s *stream) Close() error {
	s.cancel()
	err := s.pipe.Close()
	<-s.done
	return err
}
