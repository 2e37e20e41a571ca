package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// Bounds of a tree that is copied.
const (
	maxDepth   = 1000
	maxEntries = 4_000_000
	batchSize  = 256       // names of a folder that one worker takes at once
	bufferSize = 256 << 10 // bytes
	maxRetries = 3         // of a file that changes while it is copied
	maxXattrs  = 64 << 10  // bytes of the names and of each value
	maxHoles   = 64 << 20  // bytes in holes of a file that is hashed
)

// A copier copies a tree into an empty folder: folders, regular files, links,
// hard links, holes, modes, times and the extended attributes user.*. Pipes,
// sockets and devices are left out and counted. Untrusted code may change the
// source meanwhile: what vanishes is counted, what a link replaces is not
// followed, and a file that was written to while it was read is read again.
type copier struct {
	src, dst *os.File // folders
	name     string   // of the source, for errors

	// prev returns the path of a regular file with the same content and
	// attributes in the folder prevDir, and its digest.
	prev    func(rel string, st *unix.Stat_t) (digest string, ok bool)
	prevDir *os.File

	skip     func(rel string) bool                 // regular files that are not copied; nil skips none
	owner    func(workspace.Owner) workspace.Owner // of the copy of a file of that owner; nil keeps it
	clone    bool                                  // share blocks where the file system can
	hash     bool                                  // of copied files
	overlay  string                                // prefix of overlayfs's attributes: whiteouts and opaque folders are kept
	maxBytes int64                                 // of copied data; 0 is no bound
	progress func(entries, bytes int64)            // is called with what was copied; may be nil

	mu      sync.Mutex
	wake    *sync.Cond
	tasks   []copyTask
	working int
	err     error
	ctx     context.Context
	total   int
	bytes   int64
	links   map[inode]string // first name of a file with several
	later   []copyLink
	dirs    []Entry
	result  copied
}

// An inode identifies a file.
type inode struct{ dev, ino uint64 }

// copied is what a copier has done.
type copied struct {
	entries []Entry // sorted by path
	leftOut LeftOut
	bytes   int64 // copied, not linked
}

// A copyTask is a folder whose names are to be read, or names of an open one.
type copyTask struct {
	rel   string
	depth int
	open  *openPair
	names []string
}

type copyLink struct {
	rel, first string
	st         unix.Stat_t
}

// An openPair is a folder of the source and its copy while workers use it.
type openPair struct {
	src, dst int
	mu       sync.Mutex
	users    int
}

func (p *openPair) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		unix.Close(p.src)
		unix.Close(p.dst)
	}
}

func (p *openPair) hold() {
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
}

// run copies. After an error the target holds a part.
func (c *copier) run(ctx context.Context) (copied, error) {
	c.wake = sync.NewCond(&c.mu)
	c.links = map[inode]string{}
	c.ctx = ctx
	stop := context.AfterFunc(ctx, func() { c.stop(ctx.Err()) })
	defer stop()
	var st unix.Stat_t
	if err := unix.Fstat(int(c.src.Fd()), &st); err != nil {
		return copied{}, err
	}
	c.dirs = append(c.dirs, c.folder(".", &st))
	c.tasks = []copyTask{{rel: "."}}
	n := min(max(2*runtime.GOMAXPROCS(0), 4), 16)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			w := &copyWorker{c: c, buf: make([]byte, bufferSize), sum: sha256.New()}
			w.work()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.result.add(w.result)
		})
	}
	group.Wait()
	if c.err != nil {
		return copied{}, c.err
	}
	if err := c.finish(); err != nil {
		return copied{}, err
	}
	slices.SortFunc(c.result.entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return c.result, nil
}

func (r *copied) add(o copied) {
	r.entries = append(r.entries, o.entries...)
	r.leftOut.add(o.leftOut)
	r.bytes += o.bytes
}

func (l *LeftOut) add(o LeftOut) {
	l.Special += o.Special
	l.Unreadable += o.Unreadable
	l.Vanished += o.Vanished
	l.Changed += o.Changed
	l.Paths = append(l.Paths, o.Paths[:min(len(o.Paths), maxNamed-min(len(l.Paths), maxNamed))]...)
}

func (l *LeftOut) name(rel string) {
	if len(l.Paths) >= maxNamed {
		return
	}
	if q := strconv.QuoteToASCII(rel); q != `"`+rel+`"` {
		rel = q
	}
	l.Paths = append(l.Paths, rel)
}

// finish makes the further names of files, and gives the folders their
// attributes, the deepest first: a name that is added changes the time.
func (c *copier) finish() error {
	w := &copyWorker{c: c, buf: make([]byte, bufferSize), sum: sha256.New()}
	known := map[string]*Entry{}
	if len(c.later) > 0 {
		for i := range c.result.entries {
			known[c.result.entries[i].Path] = &c.result.entries[i]
		}
	}
	for _, l := range c.later {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		first := known[l.first]
		if first != nil {
			err := linkBeneath(c.dst, l.first, c.dst, l.rel)
			if err == nil {
				e := *first
				e.Path, e.Link = l.rel, l.first
				w.result.entries = append(w.result.entries, e)
				continue
			}
			if !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.EPERM) {
				return c.fault(l.rel, err)
			}
		}
		// The first name has vanished, or has as many others as it can have.
		pair, err := c.openPair(path.Dir(l.rel))
		if err == nil {
			err = w.content(pair, path.Base(l.rel), l.rel, &l.st)
			pair.release()
		}
		if err != nil {
			return c.fault(l.rel, err)
		}
	}
	slices.SortFunc(c.dirs, func(a, b Entry) int {
		return cmp.Or(strings.Count(b.Path, "/")-strings.Count(a.Path, "/"), cmp.Compare(b.Path, a.Path))
	})
	for _, d := range c.dirs {
		if err := c.finishFolder(d); err != nil {
			return c.fault(d.Path, err)
		}
	}
	c.result.add(w.result)
	c.result.entries = append(c.result.entries, c.dirs...)
	return nil
}

func (c *copier) finishFolder(d Entry) error {
	fd, err := openBeneath(c.dst, d.Path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if os.Geteuid() == 0 {
		o := d.owner(c.owner)
		if err := unix.Fchown(fd, o.UID, o.GID); err != nil {
			return err
		}
	}
	for name, value := range d.Xattrs {
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return errors.Join(setTimes(fd, ".", d.MTime), unix.Fchmod(fd, d.Mode))
}

// folder is the entry of a folder of the source.
func (c *copier) folder(rel string, st *unix.Stat_t) Entry { return entryOf(rel, typeDir, st) }

func (c *copier) fault(rel string, err error) error {
	var known *sandbox.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: %w", strconv.QuoteToASCII(path.Join(c.name, rel)), err)
}

func (c *copier) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.wake.Broadcast()
}

func (c *copier) push(t copyTask) {
	c.mu.Lock()
	c.tasks = append(c.tasks, t)
	c.mu.Unlock()
	c.wake.Signal()
}

// next returns a task, or false when there is none and there will be none.
func (c *copier) next(first bool) (copyTask, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !first {
		c.working--
	}
	for {
		switch {
		case c.err != nil || len(c.tasks) == 0 && c.working == 0:
			c.wake.Broadcast()
			return copyTask{}, false
		case len(c.tasks) > 0:
			t := c.tasks[len(c.tasks)-1]
			c.tasks = c.tasks[:len(c.tasks)-1]
			c.working++
			return t, true
		}
		c.wake.Wait()
	}
}

// count adds entries of a folder and refuses too many.
func (c *copier) count(n int) error {
	if c.progress != nil {
		c.progress(int64(n), 0)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total += n; c.total > maxEntries {
		return tooLarge(c.name, fmt.Sprintf("it holds more than %d entries", maxEntries))
	}
	return nil
}

// charge adds copied bytes and refuses too many.
func (c *copier) charge(n int64) error {
	if c.progress != nil {
		c.progress(0, n)
	}
	if c.maxBytes <= 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes += n; c.bytes > c.maxBytes {
		return overQuota(c.name)
	}
	return nil
}

func tooLarge(resource, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: "copy files", Resource: resource, Message: resource + " is too large: " + message,
		Hint: "remove files from it",
	}
}

func overQuota(resource string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: "create checkpoint", Field: "checkpoint.maxBytes", Resource: resource,
		Message: "the checkpoints would take more of the disk than the setting allows",
		Hint:    "remove some with: sandbox checkpoint rm, or raise the setting",
	}
}

func (c *copier) openPair(rel string) (*openPair, error) {
	src, err := openBeneath(c.src, rel)
	if err != nil {
		return nil, err
	}
	dst, err := openBeneath(c.dst, rel)
	if err != nil {
		unix.Close(src)
		// The target is ours alone.
		return nil, fmt.Errorf("target: %w", errors.Join(err, errTarget))
	}
	return &openPair{src: src, dst: dst, users: 1}, nil
}

// errTarget marks errors of the target, of which nothing vanishes.
var errTarget = errors.New("the copy changed")

// A copyWorker is one goroutine of a copier.
type copyWorker struct {
	c      *copier
	buf    []byte
	sum    hash.Hash
	result copied
}

func (w *copyWorker) work() {
	t, ok := w.c.next(true)
	for ; ok; t, ok = w.c.next(false) {
		var err error
		if t.open == nil {
			err = w.folder(t)
		} else {
			err = w.batch(t)
			t.open.release()
		}
		if err != nil {
			w.c.stop(w.c.fault(t.rel, err))
		}
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, t := range w.c.tasks { // after an error
		if t.open != nil {
			t.open.release()
		}
	}
	w.c.tasks = nil
}

// folder reads the names of a folder and leaves all but the first to any
// worker.
func (w *copyWorker) folder(t copyTask) error {
	pair, err := w.c.openPair(t.rel)
	if err != nil {
		if t.rel != "." && !errors.Is(err, errTarget) && w.gone(t.rel, err) {
			return nil
		}
		return err
	}
	defer pair.release()
	dup, err := unix.FcntlInt(uintptr(pair.src), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(dup), t.rel)
	defer f.Close()
	var mine []string
	for {
		names, err := f.Readdirnames(batchSize)
		if len(names) > 0 {
			if err := w.c.count(len(names)); err != nil {
				return err
			}
			if mine == nil {
				mine = names
			} else {
				pair.hold()
				w.c.push(copyTask{rel: t.rel, depth: t.depth, open: pair, names: names})
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			break // of a folder that was removed nothing is left
		}
		if err != nil {
			return err
		}
	}
	return w.batch(copyTask{rel: t.rel, depth: t.depth, open: pair, names: mine})
}

func (w *copyWorker) batch(t copyTask) error {
	for _, name := range t.names {
		if err := w.c.ctx.Err(); err != nil {
			return err
		}
		rel := name
		if t.rel != "." {
			rel = t.rel + "/" + name
		}
		var st unix.Stat_t
		err := unix.Fstatat(t.open.src, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			err = w.entry(t, name, rel, &st)
		}
		if err != nil && !(!errors.Is(err, errTarget) && w.gone(rel, err)) {
			return w.c.fault(rel, err)
		}
	}
	return nil
}

// gone counts a file that was removed or exchanged, or may not be read.
func (w *copyWorker) gone(rel string, err error) bool {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EXDEV):
		w.result.leftOut.Vanished++
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		w.result.leftOut.Unreadable++
		w.result.entries = append(w.result.entries, Entry{Path: rel, Type: typeLeftOut})
	default:
		return false
	}
	w.result.leftOut.name(rel)
	return true
}

func (w *copyWorker) entry(t copyTask, name, rel string, st *unix.Stat_t) error {
	c := w.c
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if t.depth+1 > maxDepth {
			return tooLarge(c.name, fmt.Sprintf("its folders are nested deeper than %d", maxDepth))
		}
		if err := unix.Mkdirat(t.open.dst, name, 0o700); err != nil {
			return target(err)
		}
		e := c.folder(rel, st)
		if fd, err := unix.Openat(t.open.src, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			e.Xattrs, err = xattrs(fd, c.overlay, w.buf)
			unix.Close(fd)
			if err != nil {
				return err
			}
		}
		c.mu.Lock()
		c.dirs = append(c.dirs, e)
		c.mu.Unlock()
		c.push(copyTask{rel: rel, depth: t.depth + 1})
		return nil
	case unix.S_IFREG:
		return w.regular(t.open, name, rel, st)
	case unix.S_IFLNK:
		return w.symlink(t.open, name, rel, st)
	}
	if c.overlay != "" && isWhiteout(st) {
		if err := makeWhiteout(t.open.dst, name); err != nil {
			return target(err)
		}
		w.result.entries = append(w.result.entries, Entry{Path: rel, Type: typeWhiteout})
		return nil
	}
	w.result.leftOut.Special++
	w.result.leftOut.name(rel)
	w.result.entries = append(w.result.entries, Entry{Path: rel, Type: typeLeftOut})
	return nil
}

// target marks an error of the copy.
func target(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("target: %w", errors.Join(err, errTarget))
}

func (w *copyWorker) symlink(p *openPair, name, rel string, st *unix.Stat_t) error {
	n, err := unix.Readlinkat(p.src, name, w.buf)
	if err != nil {
		return err
	}
	to := string(w.buf[:n])
	if err := unix.Symlinkat(to, p.dst, name); err != nil {
		return target(err)
	}
	e := entryOf(rel, typeLink, st)
	e.Link = to
	if os.Geteuid() == 0 {
		o := e.owner(w.c.owner)
		if err := unix.Fchownat(p.dst, name, o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return target(err)
		}
	}
	if err := setTimes(p.dst, name, e.MTime); err != nil {
		return target(err)
	}
	w.result.entries = append(w.result.entries, e)
	return nil
}

func (w *copyWorker) regular(p *openPair, name, rel string, st *unix.Stat_t) error {
	c := w.c
	if c.skip != nil && c.skip(rel) {
		return nil
	}
	if st.Nlink > 1 {
		id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // an int32 elsewhere
		c.mu.Lock()
		first, seen := c.links[id]
		if seen {
			c.later = append(c.later, copyLink{rel, first, *st})
		} else {
			c.links[id] = rel
		}
		c.mu.Unlock()
		if seen {
			return nil
		}
	}
	if c.prev != nil {
		if digest, ok := c.prev(rel, st); ok {
			if err := linkInto(c.prevDir, rel, p.dst, name); err == nil {
				e := entryOf(rel, typeFile, st)
				e.Digest = digest
				w.result.entries = append(w.result.entries, e)
				return nil
			}
			// It has as many names as it can have, or is gone.
		}
	}
	return w.content(p, name, rel, st)
}

// content copies a regular file.
func (w *copyWorker) content(p *openPair, name, rel string, st *unix.Stat_t) error {
	src, err := open(p.src, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	if err := unix.Fstat(src, st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.ENOENT // exchanged
	}
	dst, err := open(p.dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return target(err)
	}
	defer unix.Close(dst)
	e, err := w.stable(src, dst, rel, st)
	if err == nil {
		err = w.attributes(src, dst, p.dst, name, &e)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(p.dst, name, 0))
	}
	w.result.entries = append(w.result.entries, e)
	return nil
}

// stable copies the content until the file does not change meanwhile, some
// times at most.
func (w *copyWorker) stable(src, dst int, rel string, st *unix.Stat_t) (Entry, error) {
	for try := 1; ; try++ {
		digest, err := w.data(src, dst, st)
		if err != nil {
			return Entry{}, err
		}
		before := *st
		if err := unix.Fstat(src, st); err != nil {
			return Entry{}, err
		}
		same := before.Size == st.Size && before.Mtim == st.Mtim && before.Ctim == st.Ctim
		if same || try >= maxRetries {
			e := entryOf(rel, typeFile, st)
			e.Digest = digest
			if !same {
				w.result.leftOut.Changed++
				w.result.leftOut.name(rel)
				e.CTime = 0 // it counts as changed next time
			}
			w.result.bytes += st.Blocks * 512
			return e, nil
		}
		if err := unix.Ftruncate(dst, 0); err != nil {
			return Entry{}, target(err)
		}
	}
}

// data copies the bytes of a file and returns their digest, or none.
func (w *copyWorker) data(src, dst int, st *unix.Stat_t) (string, error) {
	if err := w.c.charge(st.Blocks * 512); err != nil {
		return "", err
	}
	if st.Size == 0 {
		return w.digest(nil), nil
	}
	if w.c.clone && cloneFile(dst, src) == nil {
		return "", nil
	}
	w.sum.Reset()
	if st.Blocks*512 < st.Size {
		return w.sparse(src, dst, st)
	}
	if err := w.span(src, dst, 0, st.Size); err != nil {
		return "", err
	}
	return w.digest(w.sum), nil
}

func (w *copyWorker) digest(h hash.Hash) string {
	if !w.c.hash {
		return ""
	}
	if h == nil {
		w.sum.Reset()
	}
	return hex.EncodeToString(w.sum.Sum(w.buf[:0]))
}

// span copies the bytes between two offsets. A file that ends before has
// shrunk, which shows in its size afterwards.
func (w *copyWorker) span(src, dst int, from, to int64) error {
	for from < to {
		n, err := unix.Pread(src, w.buf[:min(int64(len(w.buf)), to-from)], from)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if w.c.hash {
			w.sum.Write(w.buf[:n])
		}
		for b := w.buf[:n]; len(b) > 0; {
			m, err := unix.Pwrite(dst, b, from)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return target(err)
			}
			b, from = b[m:], from+int64(m)
		}
		if to-from > 0 {
			if err := w.c.ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sparse copies a file that has holes, and keeps them.
func (w *copyWorker) sparse(src, dst int, st *unix.Stat_t) (string, error) {
	holes := int64(0)
	hole := func(n int64) {
		if holes += n; w.c.hash && holes <= maxHoles {
			zeros := make([]byte, min(n, bufferSize))
			for ; n > 0; n -= int64(len(zeros)) {
				zeros = zeros[:min(int64(len(zeros)), n)]
				w.sum.Write(zeros)
			}
		}
	}
	at := int64(0)
	for at < st.Size {
		data, end, err := nextData(src, at, st.Size)
		if err != nil {
			return "", err
		}
		hole(data - at)
		if err := w.span(src, dst, data, end); err != nil {
			return "", err
		}
		at = end
	}
	if err := unix.Ftruncate(dst, st.Size); err != nil {
		return "", target(err)
	}
	if holes > maxHoles {
		return "", nil
	}
	return w.digest(w.sum), nil
}

// attributes gives the copy the owner, the extended attributes, the mode and
// the time of the file.
func (w *copyWorker) attributes(src, dst, dir int, name string, e *Entry) error {
	var err error
	if e.Xattrs, err = xattrs(src, w.c.overlay, w.buf); err != nil {
		return err
	}
	for key, value := range e.Xattrs {
		if err := unix.Fsetxattr(dst, key, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return target(err)
		}
	}
	mode := e.Mode
	if os.Geteuid() == 0 {
		o := e.owner(w.c.owner)
		if err := unix.Fchown(dst, o.UID, o.GID); err != nil {
			return target(err)
		}
		if o.UID == 0 {
			mode &^= unix.S_ISUID | unix.S_ISGID
		}
	}
	if err := unix.Fchmod(dst, mode); err != nil {
		return target(err)
	}
	return target(setTimes(dir, name, e.MTime))
}

// xattrs reads the attributes user.* of an open file, and overlayfs's opaque
// mark where prefix is not empty.
func xattrs(fd int, prefix string, buf []byte) (map[string]string, error) {
	n, err := unix.Flistxattr(fd, buf[:maxXattrs])
	if n == 0 || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m map[string]string
	for key := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		own := prefix != "" && key == prefix+"opaque"
		if !own && (!strings.HasPrefix(key, "user.") || strings.HasPrefix(key, "user.overlay.")) {
			continue
		}
		n, err := unix.Fgetxattr(fd, key, buf[:maxXattrs])
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ERANGE) {
			continue // removed or grown meanwhile
		}
		if err != nil {
			return nil, err
		}
		if m == nil {
			m = map[string]string{}
		}
		m[key] = string(buf[:n])
	}
	return m, nil
}
