package change

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

const opTree = "read tree"

// ErrNotFolder says that a path of a tree is no folder.
var ErrNotFolder = errors.New("is not a folder")

// A Tree is a plain folder, or layers in the format of overlayfs that are seen
// as one. It is safe for concurrent use. Its methods follow no link, also when
// another process exchanges files and folders meanwhile. Errors are
// *[sandbox.Error], of code CodeNotFound for a path that is not there.
type Tree struct {
	layers    []layer // topmost first
	overlay   bool    // whiteouts and opaque folders hide what lies below
	userXattr bool
}

// A layer is the open root of one folder.
type layer struct {
	fd         int
	path       string
	dev, ino   uint64
	xwhiteouts bool // empty files with an attribute may be whiteouts
}

// LayerOptions say how the layers of a tree were mounted.
type LayerOptions struct {
	// UserXattr is the mount option userxattr: attributes of overlayfs are
	// named user.overlay.*, and else trusted.overlay.*. The names of the other
	// kind have no meaning, because code in a sandbox can set them.
	UserXattr bool
}

// Folder opens the folder at the absolute path as a tree. The caller closes
// it. The path may lead through links; nothing below it does.
func Folder(folder string) (*Tree, error) { return open([]string{folder}, &Tree{}) }

// Layers opens folders as the layers of one tree, topmost first: an upper
// folder or none, and the lower folders. A whiteout is a character device 0/0,
// or an empty file with the attribute overlay.whiteout in a folder that has the
// attribute overlay.opaque "x", as the root of its layer has; a folder whose
// overlay.opaque is "y" hides what lies below. The mount options redirect_dir and metacopy have to be off.
func Layers(folders []string, o LayerOptions) (*Tree, error) {
	return open(folders, &Tree{overlay: true, userXattr: o.UserXattr})
}

func open(folders []string, t *Tree) (*Tree, error) {
	if len(folders) == 0 {
		return nil, sandbox.Errorf(sandbox.CodeValidation, opTree, "a tree needs a folder")
	}
	for _, f := range folders {
		canonical, err := hostpath.Canonical(f)
		if err != nil {
			t.Close()
			return nil, failed(opTree, f, err)
		}
		fd, err := hostpath.Folder(canonical, unix.O_RDONLY)
		if err != nil {
			t.Close()
			return nil, failed(opTree, f, err)
		}
		l := layer{fd: fd, path: canonical}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			t.Close()
			return nil, failed(opTree, f, err)
		}
		l.dev, l.ino = uint64(st.Dev), st.Ino
		l.xwhiteouts = t.overlay && t.attribute(fd, "opaque") == "x"
		t.layers = append(t.layers, l)
	}
	return t, nil
}

// Close releases the folders.
func (t *Tree) Close() error {
	for _, l := range t.layers {
		unix.Close(l.fd)
	}
	t.layers = nil
	return nil
}

// above returns the number of layers that t has above those of base, and false
// where the layers of base are not the lowest ones of t.
func (t *Tree) above(base *Tree) (int, bool) {
	n := len(t.layers) - len(base.layers)
	if n < 0 || !t.overlay || n == 0 && !base.overlay || len(base.layers) > 1 && t.userXattr != base.userXattr {
		return 0, false
	}
	for i, l := range base.layers {
		if o := t.layers[n+i]; o.dev != l.dev || o.ino != l.ino {
			return 0, false
		}
	}
	return n, true
}

// A node is a folder of a tree, open in each of the layers that take part in
// it.
type node struct {
	t    *Tree
	dirs []dirAt
}

type dirAt struct {
	fd         int
	layer      int
	xwhiteouts bool // empty files with an attribute are whiteouts
	borrowed   bool // the descriptor is the tree's own
}

func (n *node) close() {
	if n == nil {
		return
	}
	for _, d := range n.dirs {
		if !d.borrowed {
			unix.Close(d.fd)
		}
	}
}

// root is the root of the tree.
func (t *Tree) root() *node {
	n := &node{t: t}
	for i, l := range t.layers {
		n.dirs = append(n.dirs, dirAt{fd: l.fd, layer: i, xwhiteouts: l.xwhiteouts, borrowed: true})
	}
	return n
}

// lookup describes the entry name of the folder, fs.ErrNotExist if there is
// none.
func (n *node) lookup(name string) (Info, error) {
	info, _, err := n.find(name)
	return info, err
}

func (n *node) find(name string) (Info, dirAt, error) {
	for _, d := range n.dirs {
		var st unix.Stat_t
		err := hostpath.Stat(d.fd, name, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return Info{}, d, err
		}
		info := infoOf(&st)
		info.layer = d.layer
		if n.whiteout(d, name, &info) {
			return Info{}, d, fs.ErrNotExist
		}
		return info, d, nil
	}
	return Info{}, dirAt{}, fs.ErrNotExist
}

// whiteout reports whether an entry of an overlayfs layer stands for a removed
// one.
func (n *node) whiteout(d dirAt, name string, info *Info) bool {
	switch {
	case !n.t.overlay:
		return false
	case info.Mode&fs.ModeCharDevice != 0:
		return info.rdev == 0
	case !d.xwhiteouts || !info.Mode.IsRegular() || info.Size != 0:
		return false
	}
	f, _, err := openFile(d.fd, name)
	if err != nil {
		return false
	}
	defer f.Close()
	return n.t.attribute(int(f.Fd()), "whiteout") != none
}

// none stands for an attribute that is not there.
const none = "\x00"

// attribute returns an attribute of overlayfs, or none.
func (t *Tree) attribute(fd int, name string) string {
	prefix := "trusted.overlay."
	if t.userXattr {
		prefix = "user.overlay."
	}
	var value [16]byte
	got := none
	_ = hostpath.Retry(func() error {
		n, err := unix.Fgetxattr(fd, prefix+name, value[:])
		if err == nil {
			got = string(value[:n])
		}
		return err
	})
	return got
}

// child opens the folder name of the folder. The error is ErrNotFolder for what
// is none.
func (n *node) child(name string) (*node, error) {
	c := &node{t: n.t}
	for _, d := range n.dirs {
		fd, err := hostpath.At(d.fd, name, unix.O_RDONLY)
		switch {
		case errors.Is(err, unix.ENOENT):
			continue
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			if len(c.dirs) > 0 {
				return c, nil // a file below hides what lies below it
			}
			if _, _, err := n.find(name); errors.Is(err, fs.ErrNotExist) {
				return nil, fs.ErrNotExist
			}
			return nil, ErrNotFolder
		case err != nil:
			c.close()
			return nil, err
		}
		at := dirAt{fd: fd, layer: d.layer}
		if !n.t.overlay {
			c.dirs = append(c.dirs, at)
			return c, nil
		}
		opaque := none // of the lowest layer, which hides nothing
		if last := len(n.t.layers) - 1; d.layer < last || n.t.layers[last].xwhiteouts {
			opaque = n.t.attribute(fd, "opaque")
		}
		at.xwhiteouts = opaque == "x" && n.t.layers[d.layer].xwhiteouts
		c.dirs = append(c.dirs, at)
		if opaque == "y" {
			return c, nil
		}
	}
	if len(c.dirs) == 0 {
		return nil, fs.ErrNotExist
	}
	return c, nil
}

// names adds to set the names in the layers above the limit, those of whiteouts
// included. It stops with an error when set has more than most names.
func (n *node) names(limit int, set map[string]bool, most int) error {
	for _, d := range n.dirs {
		if d.layer >= limit {
			continue
		}
		fd, err := hostpath.At(d.fd, ".", unix.O_RDONLY)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), n.t.layers[d.layer].path)
		for {
			batch, err := f.Readdirnames(1024)
			for _, name := range batch {
				set[name] = true
			}
			if len(set) > most {
				f.Close()
				return errTooMany
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				f.Close()
				return err
			}
		}
		f.Close()
	}
	return nil
}

var errTooMany = errors.New("there are too many files")

// at opens the folder rel, "." for the root.
func (t *Tree) at(rel string) (*node, error) {
	n := t.root()
	if rel == "." {
		return n, nil
	}
	if !t.overlay && len(t.layers) == 1 {
		if fd, err := beneath(t.layers[0].fd, rel, false); err == nil {
			return &node{t: t, dirs: []dirAt{{fd: fd}}}, nil
		}
	}
	for name := range strings.SplitSeq(rel, "/") {
		c, err := n.child(name)
		n.close()
		if err != nil {
			return nil, err
		}
		n = c
	}
	return n, nil
}

// split opens the folder that rel lies in.
func (t *Tree) split(rel string) (*node, string, error) {
	if err := checkPath(opTree, rel); err != nil {
		return nil, "", err
	}
	n, err := t.at(path.Dir(rel))
	if errors.Is(err, ErrNotFolder) {
		err = fs.ErrNotExist
	}
	return n, path.Base(rel), err
}

// Lstat describes the path rel.
func (t *Tree) Lstat(rel string) (Info, error) {
	n, name, err := t.split(rel)
	if err != nil {
		return Info{}, failed(opTree, rel, err)
	}
	defer n.close()
	if rel == "." {
		var st unix.Stat_t
		err := unix.Fstat(n.dirs[0].fd, &st)
		return infoOf(&st), failed(opTree, rel, err)
	}
	info, err := n.lookup(name)
	return info, failed(opTree, rel, err)
}

// Open opens the regular file rel for reading. Anything else is an error. Open
// does not wait, also where the path has become a pipe.
func (t *Tree) Open(rel string) (*os.File, Info, error) {
	n, name, err := t.split(rel)
	if err != nil {
		return nil, Info{}, failed(opTree, rel, err)
	}
	defer n.close()
	f, info, err := n.open(name)
	return f, info, failed(opTree, rel, err)
}

func (n *node) open(name string) (*os.File, Info, error) {
	_, d, err := n.find(name)
	if err != nil {
		return nil, Info{}, err
	}
	f, info, err := openFile(d.fd, name)
	info.layer = d.layer
	return f, info, err
}

// errIrregular says that a path is no regular file.
var errIrregular = errors.New("is no regular file")

// openFile opens the regular file name of the folder dir for reading.
func openFile(dir int, name string) (*os.File, Info, error) {
	var st unix.Stat_t
	if err := hostpath.Stat(dir, name, &st); err != nil {
		return nil, Info{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG { // opening a device may have effects
		return nil, Info{}, errIrregular
	}
	fd := -1
	err := hostpath.Retry(func() (err error) {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ELOOP) {
		return nil, Info{}, errIrregular
	}
	if err != nil {
		return nil, Info{}, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, Info{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, Info{}, errIrregular
	}
	return os.NewFile(uintptr(fd), name), infoOf(&st), nil
}

// Readlink returns the target of the symbolic link rel.
func (t *Tree) Readlink(rel string) (string, error) {
	n, name, err := t.split(rel)
	if err != nil {
		return "", failed(opTree, rel, err)
	}
	defer n.close()
	link, err := n.readlink(name)
	return link, failed(opTree, rel, err)
}

func (n *node) readlink(name string) (string, error) {
	_, d, err := n.find(name)
	if err != nil {
		return "", err
	}
	return readlinkAt(d.fd, name)
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax+1)
	size := 0
	err := hostpath.Retry(func() (err error) {
		size, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(buf[:size]), nil
}

// ReadDir returns the names in the folder rel, sorted.
func (t *Tree) ReadDir(rel string) ([]string, error) {
	if err := checkPath(opTree, rel); err != nil {
		return nil, err
	}
	n, err := t.at(rel)
	if err != nil {
		return nil, failed(opTree, rel, err)
	}
	defer n.close()
	set := map[string]bool{}
	if err := n.names(len(t.layers), set, maxEntries); err != nil {
		return nil, failed(opTree, rel, err)
	}
	var out []string
	for name := range set {
		if _, err := n.lookup(name); err == nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}
