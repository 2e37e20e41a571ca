//go:build linux

// Package launch starts a local wall, keeps the thread that holds it alive,
// and connects to the guest inside.
//
// A wall is one process tree below bubblewrap. It ends with its orchestrator
// in two ways that do not depend on each other: the kernel kills bubblewrap
// when the thread that started it ends, and the guest ends itself when the
// channel over which it gets its connections is closed.
package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/provider/local/procs"
)

const (
	maxInfo   = 4 << 10 // bytes of what bubblewrap says of its child
	maxStderr = 8 << 10 // bytes kept of what it complains of
	// killWithin bounds how long a killed wall may take to be gone.
	killWithin = 10 * time.Second
	// politeWithin bounds how long a wall that was asked to end may take. The
	// guest itself gives what runs inside two seconds.
	politeWithin = 4 * time.Second
)

// An Order says what to start.
type Order struct {
	Bwrap   string   // absolute path of the program
	Args    []string // of bubblewrap, without those that name descriptors
	Filters [][]byte // seccomp programs for all of the wall
	Guest   string   // path of the guest inside
	Config  []byte   // what the guest is told at its start; nil is nothing
	Limits  []Limit  // that Config has the guest set

	// Down, when not nil, has the wall be started by root's way down.
	Down *Down
}

// A Wall is a wall that was started. It is safe for concurrent use.
type Wall struct {
	bwrap   *child
	program string   // that it executes
	channel *os.File // over which connections are passed
	stderr  *tail

	first procs.ID // the guest, as the host numbers it

	ended chan struct{} // closed when bubblewrap is gone, and all it started
	once  sync.Once
}

// A Failed error says that a wall did not come up, in the words of the
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

// Start starts a wall and returns when its first process is known. When ctx
// ends before, or an error is returned, nothing is left.
func Start(ctx context.Context, o Order) (*Wall, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	files := &descriptors{}
	defer files.close()
	w := &Wall{program: o.Bwrap, ended: make(chan struct{}), stderr: &tail{limit: maxStderr}}
	hold, above := &latch{}, higher(o.Limits)
	defer hold.open()
	argv, info, err := w.prepare(o, files, hold, len(above) > 0)
	if err != nil {
		return nil, err
	}
	defer info.Close()
	if err := w.run(o, argv, files); err != nil {
		w.channel.Close()
		return nil, &Failed{Program: o.Bwrap, Cause: err}
	}
	files.close() // the child has its own
	if err = w.learn(ctx, info); err == nil {
		err = raise(w.first.PID, above)
	}
	if err != nil {
		w.Kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Failed{Program: o.Bwrap, Stderr: w.stderr.String(), Cause: err}
	}
	return w, nil
}

// prepare makes the descriptors and the words of the command. It returns the
// end of the pipe on which bubblewrap tells what it has started too. Asked to
// wait, bubblewrap executes the guest once hold is open.
func (w *Wall) prepare(o Order, files *descriptors, hold *latch, wait bool) (argv []string, info *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the channel of connections: %w", err)
	}
	w.channel = os.NewFile(uintptr(pair[0]), "channel")
	accept := files.add(os.NewFile(uintptr(pair[1]), "channel"))
	info, tell, err := os.Pipe()
	if err != nil {
		w.channel.Close()
		return nil, nil, err
	}
	extra := []string{"--info-fd", strconv.Itoa(files.add(tell))}
	if wait {
		var fd int
		if fd, err = hold.add(files); err == nil {
			extra = append(extra, "--block-fd", strconv.Itoa(fd))
		}
	}
	if err == nil {
		argv, err = compose(o, files, accept, extra)
	}
	if err != nil {
		w.channel.Close()
		info.Close()
		return nil, nil, err
	}
	return argv, info, nil
}

// compose writes the arguments where bubblewrap reads them and returns the
// words of the command.
func compose(o Order, files *descriptors, accept int, extra []string) ([]string, error) {
	args := slices.Concat(o.Args, extra)
	for i, program := range o.Filters {
		fd, err := files.memory("filter"+strconv.Itoa(i), program)
		if err != nil {
			return nil, err
		}
		args = append(args, "--add-seccomp-fd", strconv.Itoa(fd))
	}
	argsFD, err := files.memory("args", []byte(strings.Join(args, "\x00")+"\x00"))
	if err != nil {
		return nil, err
	}
	argv := []string{o.Bwrap, "--args", strconv.Itoa(argsFD), "--", o.Guest, "init", "--accept=" + strconv.Itoa(accept)}
	if o.Config != nil {
		fd, err := files.memory("config", o.Config)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--config="+strconv.Itoa(fd))
	}
	for _, l := range o.Limits {
		if l.Resource == unix.RLIMIT_NOFILE && l.Soft <= math.MaxUint32 {
			// The guest needs all that it may have, and its runtime takes it.
			argv = append(argv, "--nofile="+strconv.FormatUint(l.Soft, 10))
		}
	}
	return argv, nil
}

// run starts bubblewrap from a goroutine that keeps its thread until the wall
// has ended: the signal of the parent's death is that of the thread's.
func (w *Wall) run(o Order, argv []string, files *descriptors) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	complaints, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	all := append([]*os.File{null, null, write}, files.list...)
	started := make(chan error, 1)
	onThread(func() {
		var err error
		if w.bwrap, err = o.start(argv, all); err != nil {
			complaints.Close()
		}
		started <- err
		if err == nil {
			w.attend(complaints)
		}
	})
	return <-started
}

// start starts bubblewrap from the calling thread, which is good for nothing
// else afterwards.
func (o Order) start(argv []string, files []*os.File) (*child, error) {
	if o.Down == nil {
		return start(o.Bwrap, argv, files, nil)
	}
	if err := o.Down.prepare(o.Bwrap); err != nil {
		return nil, fmt.Errorf("the way down from root: %w", err)
	}
	return start(o.Bwrap, argv, files, &syscall.Credential{Uid: uint32(o.Down.UID), Gid: uint32(o.Down.GID)})
}

// attend keeps what the wall complains of, and returns when it has ended.
func (w *Wall) attend(complaints *os.File) {
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(w.stderr, complaints) }()
	w.bwrap.wait() // how bubblewrap ends says nothing
	// What it started has ended with it, and the pipe with that.
	late := time.AfterFunc(time.Second, func() { complaints.Close() })
	<-read
	late.Stop()
	complaints.Close()
	close(w.ended)
}

// learn reads which process bubblewrap has started.
func (w *Wall) learn(ctx context.Context, info *os.File) error {
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
		w.awaitComplaint()
		return errors.New("it ended before it built the wall")
	}
	w.first, err = procs.Child(said.Child, w.bwrap.pid)
	if err != nil {
		w.awaitComplaint()
	}
	return err
}

// awaitComplaint gives a program that has failed a moment to say why.
func (w *Wall) awaitComplaint() {
	select {
	case <-w.ended:
	case <-time.After(time.Second):
	}
}

// First is the wall's first process, the guest, as the host numbers it.
func (w *Wall) First() procs.ID { return w.first }

// Ended is closed when nothing of the wall runs any more.
func (w *Wall) Ended() <-chan struct{} { return w.ended }

// Stderr is the last that bubblewrap and the guest have complained of.
func (w *Wall) Stderr() string { return w.stderr.String() }

// KillGuest ends the guest at once, and all others inside with it, and returns
// when it is gone or nothing can be done about it. Bubblewrap, which ends then
// by itself, may still be there: only [Wall.Kill] ends the wall.
func (w *Wall) KillGuest() {
	w.once.Do(func() { w.channel.Close() })
	ctx, done := context.WithTimeout(context.Background(), killWithin)
	defer done()
	if w.first.PID > 0 {
		_ = w.first.Kill(ctx) // process 1 takes all others along
	}
}

// Kill ends the wall at once and returns when it is gone. It reports whether
// that is so.
func (w *Wall) Kill() bool {
	w.KillGuest()
	ctx, done := context.WithTimeout(context.Background(), killWithin)
	defer done()
	select {
	case <-w.ended:
		return true
	case <-time.After(50 * time.Millisecond): // bubblewrap goes when its child has
	}
	w.bwrap.kill()
	select {
	case <-w.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close has the guest end everything that runs, politely, and ends the wall.
func (w *Wall) Close() bool {
	w.once.Do(func() { w.channel.Close() })
	select {
	case <-w.ended:
		return true
	case <-time.After(politeWithin):
		return w.Kill()
	}
}
