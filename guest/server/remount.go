//go:build linux

package server

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/server/files"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// maxExchanges bounds the exchanges that are remembered for shells. A shell that
// has had no line since an earlier one enters its folder anew in any case.
const maxExchanges = 64

var (
	errShut   = errors.New("another file system is being put at the mount")
	errInside = errors.New("a file operation below the mount has not ended in time")
)

// A mountGate keeps file operations below a mount, and lines of shells, from
// beginning while the host puts another file system there. Its methods are safe
// for concurrent use.
type mountGate struct {
	mu        sync.Mutex
	inside    map[string]int           // operations that are under way, by mount
	shut      map[string]chan struct{} // closed when the mount is open again
	left      chan struct{}            // closed, and made anew, when an operation has left a mount that is shut
	watches   map[*files.Watch]string  // by mount
	exchanges []exchange               // the last ones
	turn      uint64                   // exchanges so far
}

// An exchange is one file system that was put in the place of another.
type exchange struct {
	turn  uint64
	root  string
	mount uint64 // the kernel's number of the old one, 0 where it is not known
}

func newMountGate() *mountGate {
	return &mountGate{
		inside: map[string]int{}, shut: map[string]chan struct{}{}, left: make(chan struct{}), watches: map[*files.Watch]string{},
	}
}

// enter begins an operation below the mount root, as soon as it is open, unless
// off is closed before.
func (g *mountGate) enter(root string, off <-chan struct{}) error {
	for {
		g.mu.Lock()
		shut := g.shut[root]
		if shut == nil {
			g.inside[root]++
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-shut:
		case <-off:
			return errCalledOff
		}
	}
}

// leave ends an operation.
func (g *mountGate) leave(root string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside[root]--; g.inside[root] == 0 {
		delete(g.inside, root)
	}
	if g.shut[root] != nil {
		close(g.left)
		g.left = make(chan struct{})
	}
}

// pass waits until no mount is shut, or stop is closed.
func (g *mountGate) pass(stop <-chan struct{}) {
	for {
		var shut chan struct{}
		g.mu.Lock()
		for _, c := range g.shut {
			shut = c
		}
		g.mu.Unlock()
		if shut == nil {
			return
		}
		select {
		case <-shut:
		case <-stop:
			return
		}
	}
}

// close shuts the mount, once an earlier exchange has ended, and waits until the
// operations that are under way there have ended, both together at most for that
// long. After an error the mount is open, or shut by the earlier exchange.
func (g *mountGate) close(root string, within time.Duration, off <-chan struct{}) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		g.mu.Lock()
		shut := g.shut[root]
		if shut == nil {
			break
		}
		g.mu.Unlock()
		select {
		case <-shut: // by one that was given up, which the guest learns later
		case <-timer.C:
			return errShut
		case <-off:
			return errCalledOff
		}
	}
	g.shut[root] = make(chan struct{})
	for g.inside[root] > 0 {
		left := g.left
		g.mu.Unlock()
		var err error
		select {
		case <-left:
		case <-timer.C:
			err = errInside
		case <-off:
			err = errCalledOff
		}
		if err != nil {
			g.open(root)
			return err
		}
		g.mu.Lock()
	}
	g.mu.Unlock()
	return nil
}

// open opens the mount again.
func (g *mountGate) open(root string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut[root])
	delete(g.shut, root)
}

// watching notes a watch below the mount, until the returned function is called.
func (g *mountGate) watching(w *files.Watch, root string) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watches[w] = root
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.watches, w)
	}
}

// exchanged notes that another file system lies at root, which is shut: next, or
// nil where it cannot be entered.
func (g *mountGate) exchanged(root string, old uint64, next *files.Root) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w, at := range g.watches {
		if at == root {
			w.Moved(next)
		}
	}
	g.turn++
	g.exchanges = append(g.exchanges, exchange{g.turn, root, old})
	if len(g.exchanges) > maxExchanges {
		g.exchanges = append(g.exchanges[:0:0], g.exchanges[1:]...)
	}
}

// now returns the number of the last exchange.
func (g *mountGate) now() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turn
}

// since returns what was exchanged after that one, and whether all of it is known.
func (g *mountGate) since(turn uint64) (list []exchange, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.exchanges {
		if e.turn > turn {
			list = append(list, e)
		}
	}
	return list, uint64(len(list)) == g.turn-turn
}

// inside does an operation below the mount of the request while that is open.
func (o *fileOp) inside(f func() error) error {
	gate := o.conn.srv.files.gate
	if err := gate.enter(o.req.Root, o.off); err != nil {
		return err
	}
	defer gate.leave(o.req.Root)
	return f()
}

// A remount is a request to put another file system at a mount.
type remount struct {
	conn *conn
	id   uint32
	req  wire.Remount

	said chan bool // by the client: whether the file systems were exchanged
	once sync.Once
	off  chan struct{} // closed when the client has gone, or calls it off
}

// remount opens the stream of a remount.
func (c *conn) remount(f wire.Frame) error {
	req, err := wire.DecodeRemount(f.Payload)
	if err != nil {
		return err
	}
	r := &remount{conn: c, id: f.Stream, req: req, said: make(chan bool, 1), off: make(chan struct{})}
	c.begin(r.id, r, false)
	go r.run()
	return nil
}

// event implements stream.
func (r *remount) event(f wire.Frame) error {
	switch f.Type {
	case wire.TypeRemounted:
		m, err := wire.DecodeRemounted(f.Payload)
		if err != nil {
			return err
		}
		select {
		case r.said <- m.Exchanged:
			return nil
		default:
			return wire.Violation("a remount was ended twice")
		}
	case wire.TypeKill:
		_, err := wire.DecodeKill(f.Payload)
		r.callOff()
		return err
	}
	return wire.Violation("unexpected frame of a remount")
}

// disconnect implements stream.
func (r *remount) disconnect() { r.callOff() }

func (r *remount) callOff() { r.once.Do(func() { close(r.off) }) }

func (r *remount) answer(t wire.Type, payload []byte) {
	// A failed write is the connection's end, which its reader sees too.
	_ = r.conn.w.Write(wire.Frame{Type: t, Stream: r.id, Payload: payload})
}

func (r *remount) run() {
	defer r.conn.finished(r.id, false)
	if err := r.do(); err != nil {
		f := fileFailure(err)
		if err == errShut || err == errInside {
			f.Kind = wire.KindBusy
		}
		r.answer(wire.TypeFailed, f.Encode())
		return
	}
	r.answer(wire.TypeDone, nil)
}

// do keeps the mount shut while the client exchanges what lies there. Unless the
// client says that it has not, the mount is opened anew: a client that has gone
// may have.
func (r *remount) do() error {
	fs := r.conn.srv.files
	within := min(time.Duration(r.req.Within)*time.Millisecond, wire.MaxQuietAfter)
	if err := fs.gate.close(r.req.Root, within, r.off); err != nil {
		return err
	}
	defer fs.gate.open(r.req.Root)
	old := fs.roots.MountOf(r.req.Root)
	r.answer(wire.TypeQuiet, nil)
	timer := time.NewTimer(wire.MaxQuiet)
	defer timer.Stop()
	var err error
	select {
	case exchanged := <-r.said:
		if !exchanged {
			return nil
		}
	case <-r.off:
		err = errCalledOff
	case <-timer.C:
		err = errCalledOff
	}
	next, failed := fs.roots.Reopen(r.req.Root)
	fs.gate.exchanged(r.req.Root, old, next)
	return errors.Join(err, failed)
}

// A reentry is a folder that a shell has to enter by its path.
type reentry struct {
	root string // where it goes when there is no such folder
	dir  string // the folder as it was named, as far as it is known
}

// reenter returns where the shell process, which has no line, has to go because
// its working directory is in a file system that was exchanged after the exchange
// before, and the number of the last one. It is nil where the shell stays.
func (g *mountGate) reenter(pid int, before uint64) (in *reentry, now uint64) {
	list, all := g.since(before)
	if len(list) == 0 && all {
		return nil, before
	}
	if len(list) == 0 {
		return nil, g.now()
	}
	now = list[len(list)-1].turn
	cwd := "/proc/" + strconv.Itoa(pid) + "/cwd"
	mount, known := mountNumber(cwd)
	for i := len(list) - 1; i >= 0; i-- {
		if e := list[i]; !all || !known || e.mount == 0 || e.mount == mount {
			// The name of a folder of a mount that is no more begins at its root.
			link, _ := os.Readlink(cwd)
			link = strings.TrimSuffix(link, " (deleted)")
			return &reentry{root: e.root, dir: strings.TrimSuffix(e.root+"/"+strings.TrimPrefix(link, "/"), "/")}, now
		}
	}
	return nil, now
}

// mountNumber returns the kernel's number of the mount in which path lies.
func mountNumber(path string) (mount uint64, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}
