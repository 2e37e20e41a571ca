package workspace

import (
	"errors"
	"io"
	"os"

	"github.com/pkg/sftp"
)

const (
	blockSize = 32 << 10 // bytes of one read, what every server answers
	window    = 16       // reads under way, so that distance costs no speed
)

// Reasons for which a server's file is not taken.
var (
	errLink      = errors.New("is reached over a link")
	errNoFile    = errors.New("is no regular file")
	errRefused   = errors.New("the server refuses it")
	errMalformed = errors.New("the server's answer is malformed")
)

// The type of a file in the mode that the protocol carries.
const (
	modeType = 0o170000
	modeFile = 0o100000
)

// A session reads one file from one server. It is for one goroutine. The
// package sftp bounds each packet and matches answers with requests; the
// methods here refuse the answers that it passes on and that no honest server
// gives, such as a success without a result.
type session struct{ c *sftp.Client }

// newSession agrees with the server on the version. Close may be called once
// the server has ended.
func newSession(r io.Reader, w io.WriteCloser) (*session, error) {
	c, err := sftp.NewClientPipe(r, w, sftp.UseFstat(true))
	if err != nil {
		return nil, err
	}
	return &session{c}, nil
}

// Close waits for the goroutine that reads from the server.
func (s *session) Close() { _ = s.c.Close() }

// unquoted replaces a status of the server, whose words are not repeated.
func unquoted(err error) error {
	if _, ok := errors.AsType[*sftp.StatusError](err); ok {
		return errRefused
	}
	return err
}

// real returns what the path p leads to.
func (s *session) real(p string) (string, error) {
	got, err := s.c.RealPath(p)
	if err == nil && got == "" {
		err = errMalformed
	}
	return got, unquoted(err)
}

// open opens the regular file at prefix + "/" + rel, no part of rel being a
// link. Between the look and the opening the server's side can exchange the
// file: what it hands out is its own business in the end, that it is a file
// and how large it may be is ours.
func (s *session) open(prefix, rel string) (*file, error) {
	p := prefix + "/" + rel
	top, err := s.real(prefix)
	if err != nil {
		return nil, err
	}
	got, err := s.real(p)
	if err != nil {
		return nil, err
	}
	if top == "/" {
		top = ""
	}
	if got != top+"/"+rel {
		return nil, errLink
	}
	if _, err := sizeOf(s.c.Lstat(p)); err != nil { // before it is opened: a pipe would wait
		return nil, err
	}
	f, err := s.c.Open(p)
	if err != nil {
		return nil, unquoted(err)
	}
	if f == nil {
		return nil, errMalformed
	}
	size, err := sizeOf(f.Stat())
	if err != nil {
		return nil, err
	}
	return &file{f: f, size: size}, nil
}

// sizeOf returns the size of what fi describes, which must be a regular file.
func sizeOf(fi os.FileInfo, err error) (int64, error) {
	if err != nil {
		return 0, unquoted(err)
	}
	if fi == nil {
		return 0, errMalformed
	}
	attrs, ok := fi.Sys().(*sftp.FileStat)
	switch {
	case !ok || attrs == nil || attrs.Size >= 1<<62:
		return 0, errMalformed
	case attrs.Mode&modeType != modeFile:
		return 0, errNoFile
	}
	return int64(attrs.Size), nil
}

// A file is read from its beginning to its end, with several reads under way.
// Each read is one block long: package sftp asks again for what a server left
// out of a block, and takes a shorter answer to a longer read for the end of
// the file.
type file struct {
	f    *sftp.File
	size int64 // bytes, when it was opened

	asked []<-chan block // under way, in order of their places
	at    int64          // where the next read begins
	left  []byte         // read, not yet handed over
	err   error          // what all further reads return
}

// A block is the result of one read. An error comes after its bytes.
type block struct {
	data []byte
	err  error
}

// Read implements [io.Reader].
func (f *file) Read(p []byte) (int, error) {
	for len(f.left) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		b := f.next()
		f.left, f.err = b.data, unquoted(b.err)
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

// next returns the next block of the file. Once one has an error, the others
// end with the session.
func (f *file) next() block {
	// One read goes beyond the size, so that a file that grew is noticed.
	for len(f.asked) < window && (f.at <= f.size || len(f.asked) == 0) {
		result, at := make(chan block, 1), f.at
		go func() {
			data := make([]byte, blockSize)
			n, err := f.f.ReadAt(data, at)
			if n < blockSize && err == nil { // a success without data
				err = errMalformed
			}
			result <- block{data[:n], err}
		}()
		f.asked = append(f.asked, result)
		f.at += blockSize
	}
	first := f.asked[0]
	f.asked = f.asked[1:]
	return <-first
}
