package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// squash returns layers of the same content, at most MaxDepth of them where
// that is possible, as the caller's creation publishes them. Layers of changes
// are merged by hard links, as the digits of a binary counter carry: two runs
// of equal weight become one, so that after n checkpoints about log2(n) layers
// are left, and each file is linked about log2(n) times. A full tree is never
// merged, nor are layers of different owners.
func (c *creation) squash(ctx context.Context, layers []Layer) ([]Layer, error) {
	return c.squashFrom(ctx, layers, c.s.layerFS)
}

// squashStaged is squash for a topmost layer that is staged.
func (c *creation) squashStaged(ctx context.Context, layers []Layer) ([]Layer, error) {
	return c.squashFrom(ctx, layers, func(id string) string {
		if i := slices.IndexFunc(c.staged, func(s staged) bool { return s.id == id }); i >= 0 {
			return filepath.Join(c.staged[i].dir, "fs")
		}
		return c.s.layerFS(id)
	})
}

func (c *creation) squashFrom(ctx context.Context, layers []Layer, fs func(string) string) ([]Layer, error) {
	if len(layers) <= c.s.o.MaxDepth {
		return layers, nil
	}
	var out []Layer
	for _, run := range runs(layers, c.s.o.MaxDepth) {
		if len(run) == 1 {
			out = append(out, run[0])
			continue
		}
		st, err := c.stage()
		if err != nil {
			return nil, err
		}
		merged := Layer{ID: st.id, Owner: run[0].Owner}
		var folders []string
		for _, l := range run {
			merged.Weight += l.Weight
			folders = append(folders, fs(l.ID))
		}
		if err := merge(ctx, folders, filepath.Join(st.dir, "fs"), overlayPrefix(c.r.UserXattr)); err != nil {
			return nil, fail(opCreate, c.name, err)
		}
		c.s.o.step("create: layers merged")
		out = append(out, merged)
	}
	return out, nil
}

// runs divides layers, the topmost first, into runs that are to be merged.
func runs(layers []Layer, most int) [][]Layer {
	weight := func(run []Layer) (n int) {
		for _, l := range run {
			n += l.Weight
		}
		return n
	}
	fits := func(upper, lower []Layer) bool {
		return weight(upper) > 0 && weight(lower) > 0 && upper[0].Owner == lower[0].Owner
	}
	var stack [][]Layer // the undermost first
	for _, l := range slices.Backward(layers) {
		stack = append(stack, []Layer{l})
		for n := len(stack); n > 1 && fits(stack[n-1], stack[n-2]) && weight(stack[n-1]) >= weight(stack[n-2]); n = len(stack) {
			stack[n-2] = append(slices.Clone(stack[n-1]), stack[n-2]...)
			stack = stack[:n-1]
		}
	}
	for len(stack) > most {
		best := -1
		for i := 1; i < len(stack); i++ {
			if fits(stack[i], stack[i-1]) && (best < 0 || weight(stack[i])+weight(stack[i-1]) < weight(stack[best])+weight(stack[best-1])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		stack[best-1] = append(slices.Clone(stack[best]), stack[best-1]...)
		stack = slices.Delete(stack, best, best+1)
	}
	slices.Reverse(stack)
	return stack
}

// A merger makes one layer of several.
type merger struct {
	ctx    context.Context
	roots  []*os.File // the topmost first
	dst    *os.File
	prefix string
	dirs   []mergedDir
	buf    []byte
}

// A mergedDir is a folder that was made, and the folder whose attributes it
// gets.
type mergedDir struct {
	rel    string
	layer  int
	opaque bool
}

// merge makes the folder target of the folders of layers, the topmost first.
// The result over some lower layer shows what the layers over it show.
func merge(ctx context.Context, folders []string, target, prefix string) error {
	m := &merger{ctx: ctx, prefix: prefix, buf: make([]byte, maxXattrs)}
	for _, p := range folders {
		f, err := openFolder(p)
		if err != nil {
			return err
		}
		defer f.Close()
		m.roots = append(m.roots, f)
	}
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	dst, err := openFolder(target)
	if err != nil {
		return err
	}
	defer dst.Close()
	m.dst = dst
	all := make([]int, len(m.roots))
	for i := range all {
		all[i] = i
	}
	type task struct {
		rel    string
		layers []int
	}
	m.dirs = []mergedDir{{rel: "."}}
	for stack := []task{{".", all}}; len(stack) > 0; {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		err := m.folder(t.rel, t.layers, func(rel string, layers []int) { stack = append(stack, task{rel, layers}) })
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(m.dirs, func(a, b mergedDir) int { return strings.Count(b.rel, "/") - strings.Count(a.rel, "/") })
	for _, d := range m.dirs {
		if err := m.attributes(d); err != nil {
			return err
		}
	}
	return nil
}

// A mergedName is a name of a folder in several layers.
type mergedName struct {
	layers []int // whose folders of that name show through one another
	closed bool  // what is below does not show
}

// folder merges one folder that the layers have.
func (m *merger) folder(rel string, layers []int, enter func(string, []int)) error {
	dst, err := openBeneath(m.dst, rel)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	seen := map[string]*mergedName{}
	for _, i := range layers {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if err := m.layer(i, rel, dst, seen); err != nil {
			return err
		}
	}
	for name, n := range seen {
		if len(n.layers) == 0 {
			continue
		}
		sub := path.Join(rel, name)
		if err := unix.Mkdirat(dst, name, 0o700); err != nil {
			return err
		}
		m.dirs = append(m.dirs, mergedDir{rel: sub, layer: n.layers[0], opaque: n.closed})
		enter(sub, n.layers)
	}
	return nil
}

// layer adds what the folder of one layer shows.
func (m *merger) layer(i int, rel string, dst int, seen map[string]*mergedName) error {
	fd, err := openBeneath(m.roots[i], rel)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	for {
		names, err := f.Readdirnames(batchSize)
		for _, name := range names {
			n := seen[name]
			if n == nil {
				n = &mergedName{}
				seen[name] = n
			}
			if n.closed {
				continue
			}
			if err := m.name(i, fd, dst, name, n); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (m *merger) name(i, src, dst int, name string, n *mergedName) error {
	var st unix.Stat_t
	if err := unix.Fstatat(src, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		n.layers = append(n.layers, i)
		fd, err := open(src, name, folderFlags, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		k, err := unix.Fgetxattr(fd, m.prefix+"opaque", m.buf)
		n.closed = err == nil && string(m.buf[:k]) == "y"
		return nil
	}
	n.closed = true
	switch {
	case len(n.layers) > 0: // a folder above hides it
		return nil
	case isWhiteout(&st):
		return makeWhiteout(dst, name)
	}
	err := unix.Linkat(src, name, dst, name, 0)
	if errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) {
		return m.copy(src, dst, name, &st)
	}
	return err
}

// copy copies a file that has as many names as it can have.
func (m *merger) copy(src, dst int, name string, st *unix.Stat_t) error {
	w := &copyWorker{c: &copier{ctx: m.ctx, clone: true}, buf: make([]byte, bufferSize), sum: sha256.New()}
	p := &openPair{src: src, dst: dst}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return w.symlink(p, name, name, st)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // a pipe or a socket, which no checkpoint needs
	}
	return w.content(p, name, name, st)
}

// attributes gives a merged folder what its topmost one has.
func (m *merger) attributes(d mergedDir) error {
	src, err := openBeneath(m.roots[d.layer], d.rel)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	dst, err := openBeneath(m.dst, d.rel)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return err
	}
	n, err := unix.Flistxattr(src, m.buf)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	for key := range strings.SplitSeq(string(m.buf[:max(n, 0)]), "\x00") {
		if key == "" || strings.HasPrefix(key, m.prefix) {
			continue // overlayfs speaks of the layers below
		}
		value := make([]byte, maxXattrs)
		n, err := unix.Fgetxattr(src, key, value)
		if err == nil {
			err = unix.Fsetxattr(dst, key, value[:n], 0)
		}
		if err != nil {
			return err
		}
	}
	if d.opaque {
		if err := unix.Fsetxattr(dst, m.prefix+"opaque", []byte("y"), 0); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(dst, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return errors.Join(setTimes(dst, ".", nanos(st.Mtim)), unix.Fchmod(dst, uint32(st.Mode)&0o7777)) //nolint:unconvert
}
