//go:build linux

// Package launch starts a local instance, keeps the thread that holds it alive,
// and connects to the guest inside.
//
// An instance is one process tree below bubblewrap. It ends with its orchestrator
// in two ways that do not depend on each other: the kernel kills bubblewrap
// when the thread that started it ends, and the guest ends itself when the
// channel over which it gets its connections is closed.
package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxInfo   = 4 << 10 // bytes of what bubblewrap says of its child
	maxStderr = 8 << 10 // bytes kept of what it complains of
	// killWithin bounds how long a killed instance may take to be gone.
	killWithin = time.Minute
	// aMoment is how long a complaint is waited for from an instance that may well
	// stand, complainWithin that of one whose end is certain.
	aMoment        = time.Second
	complainWithin = time.Minute
	// drainWithin bounds how long complaints are read of an instance that has ended,
	// should another process keep the pipe open.
	drainWithin = 30 * time.Second
	// politeWithin bounds how long an instance that was asked to end may take. The
	// guest itself gives what runs inside two seconds.
	politeWithin = 4 * time.Second
)

// An Order says what to start.
type Order struct {
	Bwrap   string   // absolute path of the program
	Args    []string // of bubblewrap, without those that name descriptors
	Filters [][]byte // seccomp programs for all of the instance
	Guest   string   // path of the guest inside
	Config  []byte   // what the guest receives at its start; nil is nothing
	Limits  []Limit  // that Config has the guest set
	Bounds  Bounds   // of a control group of its own; none is no such group

	// Down, when not nil, has the instance be started by root's way down.
	Down *Down
	// Tree, when not nil, is what the instance shows, to be mounted before
	// bubblewrap starts.
	Tree *Tree

	extra []string // arguments that name descriptors
}

// A Instance is an instance that was started. It is safe for concurrent use.
type Instance struct {
	bwrap   *child
	program string   // that it executes
	channel *os.File // over which connections are passed
	life    *os.File // whose end ends an instance that shares our namespaces; nil for others
	stderr  *tail

	first ID                    // the guest, as the host numbers it
	group atomic.Pointer[group] // its control group, or nil

	ended chan struct{} // closed when bubblewrap is gone, and all it started
	once  sync.Once
}

// A Failed error says that an instance did not come up, in the words of the
// program that failed.
type Failed struct {
	Program string
	Stderr  string // untrusted as to control characters
	Cause   error
}

// Error implements error.
func (f *Failed) Error() string {
	parts := []string{f.Program}
	if f.Cause != nil {
		parts = append(parts, f.Cause.Error())
	}
	if text := strings.TrimSpace(f.Stderr); text != "" {
		parts = append(parts, strconv.QuoteToGraphic(text))
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (f *Failed) Unwrap() error { return f.Cause }

// Start starts an instance and returns when its first process is known. When ctx
// ends before, or an error is returned, nothing is left.
func Start(ctx context.Context, o Order) (*Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Tree != nil && !o.Tree.usable() {
		o.Tree = nil
	}
	b, err := Begin(o)
	if err != nil {
		return nil, err
	}
	w, err := b.Finish(ctx, o)
	if o.Tree != nil && Unbuilt(err) {
		o.Tree = nil
		return Start(ctx, o)
	}
	return w, err
}

// Unbuilt reports whether an instance was not built because its tree could not be
// mounted. Without the tree it may be.
func Unbuilt(err error) bool {
	var u *unbuilt
	return errors.As(err, &u)
}

// attend keeps what the instance complains of, and returns when it has ended.
func (w *Instance) attend(complaints *os.File) {
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(w.stderr, complaints) }()
	w.bwrap.wait() // how bubblewrap ends says nothing
	w.group.Load().remove()
	// What it started has ended with it, and the pipe with that.
	late := time.AfterFunc(drainWithin, func() { complaints.Close() })
	<-read
	late.Stop()
	complaints.Close()
	close(w.ended)
}

// learn reads which process bubblewrap has started.
func (w *Instance) learn(ctx context.Context, info *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = info.SetReadDeadline(time.Now()) })
	defer stop()
	b, err := io.ReadAll(io.LimitReader(info, maxInfo))
	if err != nil {
		return err
	}
	var said struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&said); err != nil || said.Child <= 1 {
		w.awaitComplaint(ctx)
		return errors.New("it ended before it built the sandbox")
	}
	w.first, err = childProcs(said.Child, w.bwrap.pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		w.awaitComplaint(ctx)
	}
	return err
}

// awaitComplaint gives a program that has failed time to say why. Where the
// instance's first process still runs, as after a connection that was lost for
// another reason, that is a moment. Once it has ended, or never was, the end of
// the instance is certain, however late the machine comes to it.
func (w *Instance) awaitComplaint(ctx context.Context) {
	select {
	case <-w.ended:
		return
	case <-ctx.Done():
		return
	case <-time.After(aMoment):
	}
	if alive, unseen := w.first.Alive(); alive || unseen != nil {
		return
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
	case <-time.After(complainWithin):
	}
}

// First is the instance's first process, the guest, as the host numbers it.
func (w *Instance) First() ID { return w.first }

// Ended is closed when nothing of the instance runs any more.
func (w *Instance) Ended() <-chan struct{} { return w.ended }

// Stderr is the last that bubblewrap and the guest have complained of.
func (w *Instance) Stderr() string { return w.stderr.String() }

// KillGuest ends the guest at once, and all others inside with it, and reports
// whether they are gone, or nothing can be done about it. Bubblewrap, which ends then
// by itself, may still be there: only [Instance.Kill] ends the instance.
func (w *Instance) KillGuest() (gone bool) {
	w.once.Do(func() { w.channel.Close() })
	w.group.Load().kill()
	ctx, done := context.WithTimeout(context.Background(), killWithin)
	defer done()
	return w.first.PID > 0 && w.first.Kill(ctx) == nil // process 1 takes all others along
}

// Kill ends the instance at once and returns when it is gone. It reports whether
// that is so.
func (w *Instance) Kill() bool {
	w.KillGuest()
	ctx, done := context.WithTimeout(context.Background(), killWithin)
	defer done()
	select {
	case <-w.ended:
		return true
	case <-time.After(w.follows()): // bubblewrap goes when its child has
	}
	w.bwrap.kill()
	select {
	case <-w.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close has the guest end everything that runs, politely, and ends the instance.
func (w *Instance) Close() bool {
	w.once.Do(func() { w.channel.Close() })
	select {
	case <-w.ended:
		return true
	case <-time.After(politeWithin):
		return w.Kill()
	}
}
