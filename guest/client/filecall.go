package client

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A fileCall is one file operation, from the request to the last answer.
type fileCall struct {
	c        *Client
	op, path string // for errors
	req      wire.File
	request  wire.Type     // TypeFile, or 0 for that; another one has no payload
	asks     bool          // something is to be answered
	flows    bool          // the answer may go on in Data frames
	limit    uint64        // of content that the guest may send, in bytes
	credits  *wire.Credits // of content that is sent to the guest, or nil
	sending  atomic.Bool   // not all content was sent: it cannot be done

	id       uint32
	received uint64          // guarded by the reader, like more
	more     bool            // the answer goes on
	box      *wire.Inbox     // what goes on; there once answered is closed
	answer   wire.FileAnswer // readable once answered is closed
	answered chan struct{}   // closed with the first answer
	ended    chan struct{}   // closed with the last one, or when the connection ended
	err      error           // readable once ended is closed

	once sync.Once
	off  chan struct{} // closed when it was called off
}

// call prepares an operation on path.
func (f *Files) call(op, path string, m wire.File) (*fileCall, error) {
	at, err := f.locate(path)
	if err != nil {
		return nil, err
	}
	if at.ReadOnly && changes(m.Op) {
		if m.Op == wire.FileMkdir && at.Rel == "" {
			return nil, fsbridge.NewError(op, path, syscall.EEXIST)
		}
		return nil, fsbridge.NewError(op, path, syscall.EROFS)
	}
	m.Root, m.Path = at.Root, at.Rel
	if f.plain {
		m.Flags |= wire.FileNoLinks
	}
	return &fileCall{
		c: f.c, op: op, path: path, req: m,
		answered: make(chan struct{}), ended: make(chan struct{}), off: make(chan struct{}),
	}, nil
}

// changes reports whether an operation is none that only looks.
func changes(op wire.FileOp) bool {
	switch op {
	case wire.FileStat, wire.FileLstat, wire.FileReadLink, wire.FileRead, wire.FileReadDir, wire.FileWatch:
		return false
	}
	return true
}

// frame implements stream.
func (k *fileCall) frame(f wire.Frame) (last bool, err error) {
	switch {
	case f.Type == wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		k.finish(k.failed(m))
		return true, nil
	case f.Type == wire.TypeDone && k.asks == k.more && !k.sending.Load():
		k.finish(nil)
		return true, nil
	case f.Type == wire.TypeFileAnswer && k.asks && !k.isAnswered():
		return k.first(f)
	case f.Type == wire.TypeData && k.more && f.Flags == wire.FileChannel:
		if err := k.count(len(f.Payload)); err != nil {
			return false, err
		}
		return false, k.box.Put(f.Payload)
	case f.Type == wire.TypeCredit && k.credits != nil && f.Flags == wire.FileChannel:
		m, err := wire.DecodeCredit(f.Payload)
		if err == nil {
			err = k.credits.Grant(m.N)
		}
		return false, err
	}
	return false, wire.Violation("unexpected frame of a file operation")
}

// first takes the answer.
func (k *fileCall) first(f wire.Frame) (last bool, err error) {
	m, err := wire.DecodeFileAnswer(f.Payload)
	if err == nil {
		err = k.count(len(m.Content))
	}
	more := f.Flags&wire.FlagMore != 0
	switch {
	case err != nil:
		return false, err
	case f.Flags&^wire.FlagMore != 0, more && !k.flows:
		return false, wire.Violation("malformed file answer")
	}
	m.Content = append([]byte(nil), m.Content...)
	k.answer = m
	if !more {
		k.finish(nil)
		return true, nil
	}
	k.more, k.box = true, wire.NewInbox()
	close(k.answered)
	return false, nil
}

// count notes n bytes of content.
func (k *fileCall) count(n int) error {
	if k.received += uint64(n); k.received > k.limit && k.req.Op != wire.FileReadDir {
		return wire.Violation("more content than was asked for")
	}
	return nil
}

func (k *fileCall) isAnswered() bool {
	select {
	case <-k.answered:
		return true
	default:
		return false
	}
}

// lost implements stream.
func (k *fileCall) lost(err error) { k.finish(err) }

// finish records the end; it is called once.
func (k *fileCall) finish(err error) {
	k.err = err
	close(k.ended) // first: a caller that sees the answer also sees whether it is a failure
	if !k.isAnswered() {
		close(k.answered)
	}
	if k.box != nil {
		k.box.Close(err)
	}
	if k.credits != nil {
		k.credits.Close(errEnded)
	}
}

// do sends the request and waits for the answer to it: the first one of an
// operation that asks, else the only one.
func (k *fileCall) do(ctx context.Context) error {
	if err := k.open(ctx); err != nil {
		return err
	}
	if k.asks {
		return k.await(ctx, k.answered)
	}
	return k.await(ctx, k.ended)
}

func (k *fileCall) open(ctx context.Context) error {
	if ctx.Err() != nil {
		return k.gaveUp(ctx)
	}
	var err error
	t, payload := wire.TypeFile, k.req.Encode()
	if k.request != 0 {
		t, payload = k.request, nil
	}
	if k.id, err = k.c.open(ctx, t, payload, k); err != nil {
		return k.c.named(err)
	}
	return nil
}

// await waits until done is closed, which is one of answered and ended. When
// ctx ends first the operation is called off.
func (k *fileCall) await(ctx context.Context, done <-chan struct{}) error {
	defer k.c.watch()()
	select {
	case <-done:
	case <-ctx.Done():
		if !k.settle() || k.err != nil {
			return k.gaveUp(ctx)
		}
	}
	select {
	case <-k.ended:
		return k.c.named(k.err)
	default:
		return nil
	}
}

// callOff tells the guest to abort the operation, and wakes the goroutine that
// waits for its content.
func (k *fileCall) callOff() {
	k.once.Do(func() {
		close(k.off)
		if k.credits != nil {
			k.credits.Close(errEnded)
		}
		if k.isAnswered() && k.box != nil {
			k.box.Discard()
		}
		select {
		case <-k.ended:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		defer cancel()
		// An error is the connection's end, which is that of the operation.
		_ = k.c.send(ctx, wire.Frame{Type: wire.TypeKill, Stream: k.id, Payload: wire.Kill{}.Encode()})
	})
}

// settle calls the operation off and waits until the guest has said how it
// ended. It reports whether that is known: a disk that hangs holds up the
// operation, and the commands of the connection must not pay for that. A
// guest that gives no sign of life, however, is given up.
func (k *fileCall) settle() bool {
	k.callOff()
	if comesWithin(k.ended, swift) {
		return true
	}
	if !k.c.signOfLife(k.ended) {
		k.c.end(silentError())
		return true
	}
	return comesWithin(k.ended, signWithin)
}

// watch looks after a guest that is waited for: it is asked for a sign of
// life once in a while, and given up when there is none.
func (c *Client) watch() (stop func()) {
	var mu sync.Mutex
	stopped := false
	var timer *time.Timer
	mu.Lock() // the function below sees timer, however soon it runs
	defer mu.Unlock()
	timer = time.AfterFunc(answerWithin, func() {
		if c.Ping(context.Background()) != nil {
			return // the connection has ended
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer.Reset(answerWithin)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// strange is the error for an answer that no guest of ours gives.
func (k *fileCall) strange(message string) error {
	return k.c.named(&sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: k.op, Resource: termsafe.Line(k.path),
		Message: message, Hint: "recreate the sandbox",
	})
}
