//go:build linux

package server

import (
	"errors"
	"strconv"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox/guest/server/files"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// maxFileWorkers bounds the file operations that are in system calls at
	// once; see threads.go. One that waits for its client is not.
	maxFileWorkers = 4
	// maxFileClosers bounds the files that are being closed at once.
	maxFileClosers = 2
	// maxOpenFiles bounds the files that are open between system calls, so
	// that descriptors are left for commands.
	maxOpenFiles = 1024
	// maxConnFiles is how many of them one connection may have, so that a
	// client that reads none of its files leaves some to others.
	maxConnFiles = maxOpenFiles / 2
)

// A fileServer is what the file operations of all connections share.
type fileServer struct {
	roots   *files.Roots
	workers chan struct{}
	closers chan struct{}
	open    chan struct{}
	watches chan struct{}
	gate    *mountGate
	walks   bool // there is no openat2
	watch   bool // there is inotify
}

func newFileServer() *fileServer {
	k := files.Probe()
	return &fileServer{
		roots: files.NewRoots(k), gate: newMountGate(), walks: !k.Openat2, watch: k.Watches(), watches: make(chan struct{}, wire.MaxWatches),
		workers: make(chan struct{}, maxFileWorkers), closers: make(chan struct{}, maxFileClosers), open: make(chan struct{}, maxOpenFiles),
	}
}

// features are the words for what it can do.
func (s *fileServer) features() []string {
	list := []string{wire.FeatureFiles, wire.FeatureFilesNoLinks, wire.FeatureRemount}
	if s.watch {
		list = append(list, wire.FeatureFilesWatch)
	}
	if s.walks {
		list = append(list, wire.FeatureFilesWalk)
	}
	return list
}

var (
	errCalledOff = errors.New("the operation was called off")
	errInvalid   = errors.New("the operation makes no sense")
	errWatches   = errors.New("as many watches as the guest serves, " + strconv.Itoa(wire.MaxWatches) + ", are open; end one of them")
	errUnknownOp = errors.New("the guest does not know this operation")
)

// A fileOp is one file operation, from its request to its last answer.
type fileOp struct {
	conn *conn
	id   uint32
	req  wire.File

	inbox   *wire.Inbox   // content of a write that is not in the request
	credits *wire.Credits // content of a read or a listing

	once sync.Once
	off  chan struct{} // closed when it is called off
}

// file opens the stream of a file operation.
func (c *conn) file(f wire.Frame) error {
	req, err := wire.DecodeFile(f.Payload)
	if err != nil {
		return err
	}
	req.Content = append([]byte(nil), req.Content...)
	o := &fileOp{conn: c, id: f.Stream, req: req, off: make(chan struct{})}
	switch {
	case req.Op == wire.FileWrite && req.Flags&wire.FileInline == 0:
		o.inbox = wire.NewInbox()
	case req.Op == wire.FileRead || req.Op == wire.FileReadDir || req.Op == wire.FileWatch:
		o.credits = wire.NewCredits()
	}
	c.begin(o.id, o, false)
	go o.run()
	return nil
}

// event implements stream.
func (o *fileOp) event(f wire.Frame) error {
	switch {
	case f.Type == wire.TypeKill:
		_, err := wire.DecodeKill(f.Payload)
		o.callOff()
		return err
	case f.Channel() != wire.FileChannel:
	case f.Type == wire.TypeData && o.inbox != nil:
		if len(f.Payload) > 0 {
			if err := o.inbox.Put(f.Payload); err != nil {
				return err
			}
		}
		if f.EOF() {
			o.inbox.Close(nil)
		}
		return nil
	case f.Type == wire.TypeCredit && o.credits != nil:
		m, err := wire.DecodeCredit(f.Payload)
		if err == nil {
			err = o.credits.Grant(m.N)
		}
		return err
	}
	return wire.Violation("unexpected frame of a file operation")
}

// disconnect implements stream.
func (o *fileOp) disconnect() { o.callOff() }

// callOff ends every wait of the operation.
func (o *fileOp) callOff() {
	o.once.Do(func() {
		close(o.off)
		if o.inbox != nil {
			o.inbox.Close(errCalledOff)
			o.inbox.Discard()
		}
		if o.credits != nil {
			o.credits.Close(errCalledOff)
		}
	})
}

// calledOff returns errCalledOff once it is.
func (o *fileOp) calledOff() error {
	select {
	case <-o.off:
		return errCalledOff
	default:
		return nil
	}
}

// work runs f as one of the few that may be in system calls.
func (o *fileOp) work(f func() error) error {
	select {
	case o.conn.srv.files.workers <- struct{}{}:
	case <-o.off:
		return errCalledOff
	}
	defer func() { <-o.conn.srv.files.workers }()
	return f()
}

// finally runs f, which closes a file, at the end of an operation that may
// have been called off. That can be work: the space of a file without a name
// is given back then. It has a bound of its own, so that it does not wait for
// a disk that hangs up those who work.
func (o *fileOp) finally(f func()) {
	o.conn.srv.files.closers <- struct{}{}
	defer func() { <-o.conn.srv.files.closers }()
	f()
}

// pause lets others work between two steps of a long operation.
func (o *fileOp) pause() error {
	<-o.conn.srv.files.workers
	o.conn.srv.files.workers <- struct{}{}
	return o.calledOff()
}

// keep claims the right to hold a file open while waiting for the client.
func (o *fileOp) keep() (release func(), err error) {
	own, all := o.conn.fileSlots, o.conn.srv.files.open
	select {
	case own <- struct{}{}:
	default:
		return nil, unix.EMFILE
	}
	select {
	case all <- struct{}{}:
	default:
		<-own
		return nil, unix.EMFILE
	}
	return func() { <-all; <-own }, nil
}

// run does the operation and sends the last answer.
func (o *fileOp) run() {
	defer o.conn.finished(o.id, false)
	if err := o.do(); err != nil {
		o.answer(wire.TypeFailed, 0, fileFailure(err).Encode())
	}
}

// answer sends a frame. A failed write is the connection's end, which calls
// the operation off.
func (o *fileOp) answer(t wire.Type, flags uint8, payload []byte) {
	_ = o.conn.w.Write(wire.Frame{Type: t, Flags: flags, Stream: o.id, Payload: payload})
}

// done ends an operation that returns nothing.
func (o *fileOp) done(err error) error {
	if err == nil {
		o.answer(wire.TypeDone, 0, nil)
	}
	return err
}

// fileFailure describes err to the client.
func fileFailure(err error) *wire.Failed {
	kind := wire.KindInternal
	var errno syscall.Errno
	switch {
	case errors.Is(err, errCalledOff):
		kind = wire.KindCalledOff
	case errors.Is(err, errInvalid):
		kind = wire.KindInvalid
	case errors.Is(err, errUnknownOp):
		kind = wire.KindUnsupported
	case errors.Is(err, errWatches), errors.Is(err, files.ErrWatches), errors.Is(err, files.ErrWatchedFolders):
		kind = wire.KindResource
	case errors.Is(err, files.ErrEscape):
		kind = wire.KindEscape
	case errors.Is(err, files.ErrLink):
		kind = wire.KindLink
	case errors.Is(err, files.ErrIrregular):
		kind = wire.KindIrregular
	case errors.Is(err, files.ErrNoRoot):
		kind = wire.KindNoRoot
	case errors.As(err, &errno):
		kind = wire.KindFile
	}
	return failure(kind, err)
}
