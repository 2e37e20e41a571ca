//go:build linux

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Begun is an instance of which bubblewrap was started, and does not know yet
// what it is to build: it waits for its arguments. That takes a while which
// who computes them need not wait for. One goroutine at a time may use it,
// and has to call Finish or Drop.
type Begun struct {
	order Order // what it was begun for, as far as known then
	wall  *Instance

	files    *descriptors // of the child
	memories []*os.File   // those of them that it reads as files: the filters, then the configuration
	args     *os.File     // on which the child reads its arguments
	info     *os.File     // on which it tells what it has started
	hold     *latch
	above    []Limit // limits that are raised from outside

	started chan error // one answer; closed
	err     error      // that answer, once known
	known   bool

	mounts chan func() error // what the thread is to do with its mounts
	staged chan error        // one answer to each
}

// errEndedEarly says that bubblewrap has ended before it got its arguments.
var errEndedEarly = errors.New("it ended before it read what to build")

// Begin starts the program of an instance. Of o count the programs, the limits,
// the user, the sources that are known by now, how many filters there are and
// whether there is a configuration. The rest comes with Finish.
func Begin(o Order) (*Begun, error) {
	b := &Begun{
		order: o, files: &descriptors{}, hold: &latch{}, above: higher(o.Limits),
		wall:    &Instance{program: o.Bwrap, ended: make(chan struct{}), stderr: &tail{limit: maxStderr}},
		started: make(chan error, 1), mounts: make(chan func() error), staged: make(chan error),
	}
	argv, err := b.prepare()
	if err == nil {
		err = b.run(argv)
	}
	if err != nil {
		b.close()
		if b.wall.channel != nil {
			b.wall.channel.Close()
		}
		return nil, err
	}
	return b, nil
}

// Fits reports whether o can be finished with what was begun.
func (b *Begun) Fits(o Order) bool {
	if o.Bwrap != b.order.Bwrap || o.Guest != b.order.Guest || len(o.Filters) != len(b.order.Filters) ||
		(o.Config == nil) != (b.order.Config == nil) || o.Down == nil && (o.Tree == nil) != (b.order.Tree == nil) || !slices.Equal(o.Limits, b.order.Limits) || (o.Down == nil) != (b.order.Down == nil) {
		return false
	}
	if o.Down == nil {
		return true
	}
	d, known := o.Down, b.order.Down.Sources
	return d.UID == b.order.Down.UID && d.GID == b.order.Down.GID && len(d.Sources) >= len(known) && slices.Equal(d.Sources[:len(known)], known)
}

// Finish has the instance be built as o says, which must fit, and returns when its
// first process is known. When ctx ends before, or an error is returned,
// nothing is left.
func (b *Begun) Finish(ctx context.Context, o Order) (*Instance, error) {
	defer b.close()
	if err := b.await(); err != nil {
		b.wall.channel.Close()
		return nil, &Failed{Program: o.Bwrap, Cause: err}
	}
	err := b.tell(ctx, o)
	if err != nil { // it has not begun to build, and must not begin
		b.kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Failed{Program: o.Bwrap, Stderr: b.wall.stderr.String(), Cause: err}
	}
	w := b.wall
	if err = w.learn(ctx, b.info); err == nil {
		err = raise(w.first.PID, b.above)
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

// Drop ends what was begun, and returns when it is gone.
func (b *Begun) Drop() {
	if b.await() == nil {
		b.kill()
	} else {
		b.wall.channel.Close()
	}
	b.close()
}

// await returns when the program runs, or why it does not.
func (b *Begun) await() error {
	if !b.known {
		b.err, b.known = <-b.started, true
	}
	return b.err
}

// kill ends the program, which waits for its arguments or reads them.
func (b *Begun) kill() {
	b.wall.once.Do(func() { b.wall.channel.Close() })
	b.unstage()
	b.wall.bwrap.kill()
	<-b.wall.ended
}

// close gives up our side of what the child has. A child that is still there
// has got all of its arguments.
func (b *Begun) close() {
	b.files.close()
	for _, f := range append([]*os.File{b.args, b.info}, b.memories...) {
		if f != nil {
			f.Close()
		}
	}
	b.hold.open()
	b.unstage()
}

// unstage says that no more mounts will follow: the thread attends to its child
// from now on.
func (b *Begun) unstage() {
	if b.mounts != nil {
		close(b.mounts)
		b.mounts = nil
	}
}

// prepare makes the descriptors and the words of the command.
func (b *Begun) prepare() (argv []string, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the channel of connections: %w", err)
	}
	b.wall.channel = os.NewFile(uintptr(pair[0]), "channel")
	accept := b.files.add(os.NewFile(uintptr(pair[1]), "channel"))
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.args = write
	argv = []string{b.order.Bwrap, "--args", strconv.Itoa(b.files.add(read)), "--", b.order.Guest, "init", "--accept=" + strconv.Itoa(accept)}
	return b.options(argv)
}

// options makes the descriptors of which the arguments will speak, and adds to
// the words of the command what the guest is to receive.
func (b *Begun) options(argv []string) ([]string, error) {
	info, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.info = info
	b.order.extra = []string{"--info-fd", strconv.Itoa(b.files.add(tell))}
	if len(b.above) > 0 {
		fd, err := b.hold.add(b.files)
		if err != nil {
			return nil, err
		}
		b.order.extra = append(b.order.extra, "--block-fd", strconv.Itoa(fd))
	}
	for i := range b.order.Filters {
		fd, err := b.memory("filter" + strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		b.order.extra = append(b.order.extra, "--add-seccomp-fd", strconv.Itoa(fd))
	}
	if b.order.Config != nil {
		fd, err := b.memory("config")
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--config="+strconv.Itoa(fd))
	}
	for _, l := range b.order.Limits {
		if l.Resource == unix.RLIMIT_NOFILE && l.Soft <= math.MaxUint32 {
			// The guest needs all that it may have, and its runtime takes it.
			argv = append(argv, "--nofile="+strconv.FormatUint(l.Soft, 10))
		}
	}
	return argv, nil
}

// memory gives a number to a file in memory that is filled later.
func (b *Begun) memory(name string) (number int, err error) {
	f, err := memory(name)
	if err != nil {
		return 0, err
	}
	b.memories = append(b.memories, f)
	return b.files.borrow(f), nil
}

// run starts bubblewrap from a goroutine that keeps its thread until the instance
// has ended: the signal of the parent's death is that of the thread's.
func (b *Begun) run(argv []string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	complaints, write, err := os.Pipe()
	if err != nil {
		null.Close()
		return err
	}
	all := append([]*os.File{null, null, write}, b.files.list...)
	mounts := b.mounts
	soonOnThread(func() {
		var err error
		if b.wall.bwrap, err = b.order.start(argv, all); err != nil {
			complaints.Close()
		}
		null.Close()
		write.Close()
		b.files.close() // the child has its own
		b.started <- err
		if err != nil {
			return
		}
		for do := range mounts {
			b.staged <- do()
		}
		b.wall.attend(complaints)
	})
	return nil
}

// start starts bubblewrap from the calling thread, which is good for nothing
// else afterwards.
func (o Order) start(argv []string, files []*os.File) (*child, error) {
	switch {
	case o.Down == nil && o.Tree != nil:
		return o.Tree.start(o.Bwrap, argv, files)
	case o.Down == nil:
		return start(o.Bwrap, argv, files, nil)
	}
	if err := o.Down.prepare(o.Bwrap); err != nil {
		return nil, fmt.Errorf("the way down from root: %w", err)
	}
	return start(o.Bwrap, argv, files, &syscall.Credential{Uid: uint32(o.Down.UID), Gid: uint32(o.Down.GID)})
}

// tell gives the child all that it waits for, the arguments last.
func (b *Begun) tell(ctx context.Context, o Order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.show(o); err != nil {
		return fmt.Errorf("the way down from root: %w", err)
	}
	// Before it makes namespaces: the root of its control groups is the one that it is in.
	if o.Bounds != (Bounds{}) {
		g, err := newGroup(ctx, b.wall.bwrap.pid, o.Bounds)
		if err != nil {
			return &Ungrouped{err}
		}
		b.wall.group.Store(g)
	}
	contents := slices.Clone(o.Filters)
	if o.Config != nil {
		contents = append(contents, o.Config)
	}
	for i, content := range contents {
		if err := fill(b.memories[i], content); err != nil {
			return err
		}
	}
	args := b.args // b.args is gone by the time that ctx ends late
	stop := context.AfterFunc(ctx, func() { _ = args.SetWriteDeadline(time.Now()) })
	defer stop()
	words := o.Args
	if o.Tree != nil {
		words = o.Tree.Args
	}
	_, err := args.WriteString(strings.Join(slices.Concat(words, b.order.extra), "\x00") + "\x00")
	if errors.Is(err, unix.EPIPE) {
		b.wall.awaitComplaint(ctx)
		return errEndedEarly
	}
	if err != nil {
		return err
	}
	b.args = nil
	return args.Close()
}

// show has the thread mount the tree, or stage the sources that were not known
// at the beginning.
func (b *Begun) show(o Order) error {
	defer b.unstage()
	if o.Down == nil {
		return nil
	}
	if err := o.Down.check(); err != nil {
		return err
	}
	known := len(b.order.Down.Sources)
	sources, do := o.Down.Sources[known:], func(trees []int) error {
		for i, tree := range trees {
			if err := put(tree, Staged(known+i)); err != nil {
				return err
			}
		}
		return nil
	}
	if o.Tree != nil {
		sources, do = o.Tree.sources(), func(trees []int) error { return o.Tree.build(trees, o.Down) }
	}
	trees, err := openSources(sources)
	defer closeAll(trees)
	if err != nil && o.Tree != nil {
		return &unbuilt{what: "from the host", cause: err}
	}
	if err != nil || len(trees) == 0 {
		return err
	}
	b.mounts <- func() error { return do(trees) }
	return <-b.staged
}
