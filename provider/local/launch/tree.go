//go:build linux

package launch

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/guest/server"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Where bubblewrap finds what was mounted for it.
const (
	TreeRoot = Stage + "/root" // all that the sandbox shows
	TreeMask = Stage + "/mask" // the file that stands for closed files
	treeNew  = Stage + "/new"  // where what is new is mounted before it gets its place
)

// A Tree is what a sandbox shows, mounted before bubblewrap starts, which then
// takes all of it in one step. bubblewrap reads the list of all mounts for each
// that it makes, so that a sandbox with many would take several times as long.
//
// Where the tree cannot be made, such as where only bubblewrap may have
// a user namespace, the sandbox is built from Order.Args alone.
type Tree struct {
	Ops  []plan.Op // their sources are paths of the host
	Mask string    // path of the file that stands for closed files
	Args []string  // of bubblewrap, in place of Order.Args
}

// maxTrees bounds how many mounts a tree takes from the host: each is a
// descriptor until it has its place.
const maxTrees = 256

// devices are what bubblewrap has in /dev, with the same names on the host.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// usable reports whether a tree can hold what t says.
func (t *Tree) usable() bool {
	n := 0
	for _, o := range t.Ops {
		if strings.ContainsRune(o.Source+o.Target, 0) || o.Kind == plan.OpProc && o.Target != "/proc" {
			return false
		}
		if late(o) && o.Kind != plan.OpMaskFile && o.Kind != plan.OpProc {
			return false
		}
		if takes(o) {
			n++
		}
	}
	return n <= maxTrees
}

// late reports whether o has to wait for the process file system, which only
// the first process of the sandbox can have mounted.
func late(o plan.Op) bool { return o.Target == "/proc" || strings.HasPrefix(o.Target, "/proc/") }

// Late returns those of ops that bubblewrap has to do after it has taken a tree.
func Late(ops []plan.Op) []plan.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o plan.Op) bool { return !late(o) })
}

// takes reports whether o shows something of the host.
func takes(o plan.Op) bool {
	return !late(o) && (o.Kind == plan.OpBind || o.Kind == plan.OpRoBind || o.Kind == plan.OpMaskFile)
}

// sources are the paths of the host that are shown, in order: those of the
// operations, the devices, the mask.
func (t *Tree) sources() []string {
	var out []string
	for _, o := range t.Ops {
		if takes(o) {
			out = append(out, cmpOr(o.Kind == plan.OpMaskFile, t.Mask, o.Source))
		}
	}
	for _, name := range devices {
		out = append(out, "/dev/"+name)
	}
	return append(out, t.Mask)
}

func cmpOr(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// A grower adds the steps that make a tree to a program.
type grower struct {
	*program
	root     result
	owner    *Down // nil where files in memory are the builder's anyway
	borrowed bool  // the caller closes the descriptors of sources
	kinds    map[string]plan.OpKind
}

const (
	fdcwd   = unix.AT_FDCWD
	inTree  = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	noLinks = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	cloned  = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	empty   = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
)

// openat2 adds the opening of a path, of which no part may be a link.
func (p *program) openat2(dir any, path string, resolve uint64) result {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	return p.get("open "+path, unix.SYS_OPENAT2, dir, path, unsafe.Pointer(how), int(unsafe.Sizeof(*how)))
}

// take adds what has the mounts at path of the host, and returns its descriptor.
func (p *program) take(path string) any {
	fd := p.openat2(fdcwd, path, noLinks)
	tree := p.get("take "+path, unix.SYS_OPEN_TREE, fd, "", cloned)
	p.add("close", unix.SYS_CLOSE, fd)
	return tree
}

// attr adds the setting of attributes of a mount and, where recursive, of those
// below it.
func (p *program) attr(what string, fd any, set uint64, flags int) {
	attr := &unix.MountAttr{Attr_set: set}
	p.add(what, unix.SYS_MOUNT_SETATTR, fd, "", unix.AT_EMPTY_PATH|flags, unsafe.Pointer(attr), int(unsafe.Sizeof(*attr)))
}

// grow adds the steps that mount everything below [Stage], which is an empty
// folder in memory. Taken are the descriptors of the sources, which it closes
// unless they are borrowed: a number that is closed twice may be another file's by
// the second time.
func (t *Tree) grow(p *program, taken []any, owner *Down, borrowed bool) {
	g := &grower{program: p, owner: owner, borrowed: borrowed, kinds: map[string]plan.OpKind{}}
	for _, o := range t.Ops {
		if o.Kind != plan.OpRemountRo {
			g.kinds[o.Target] = o.Kind
		}
	}
	mask := taken[len(taken)-1]
	p.add("make the place of the mask", unix.SYS_MKNODAT, fdcwd, TreeMask, unix.S_IFREG|0o444, 0)
	p.attr("close the mask", mask, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, 0)
	p.add("mount the mask", unix.SYS_MOVE_MOUNT, mask, "", fdcwd, TreeMask, unix.MOVE_MOUNT_F_EMPTY_PATH)
	g.release(mask)
	p.add("make a place for what is new", unix.SYS_MKDIRAT, fdcwd, treeNew, 0o755)
	p.add("make the root", unix.SYS_MKDIRAT, fdcwd, TreeRoot, 0o755)
	p.add("the root", unix.SYS_MOUNT, "tmpfs", TreeRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, g.memory(0o755, 0))
	g.root = p.openat2(fdcwd, TreeRoot, noLinks)
	i := 0
	for _, o := range t.Ops {
		var source any
		if takes(o) {
			source = taken[i]
			i++
		}
		g.op(o, source, taken[len(taken)-1-len(devices):len(taken)-1])
	}
	p.add("close", unix.SYS_CLOSE, g.root)
}

// memory is the data of a tmpfs.
func (g *grower) memory(mode uint32, size int64) string {
	data := fmt.Sprintf("mode=%04o", mode)
	if size > 0 {
		data += ",size=" + strconv.FormatInt(size, 10)
	}
	if g.owner != nil {
		data += fmt.Sprintf(",uid=%d,gid=%d", g.owner.UID, g.owner.GID)
	}
	return data
}

// op adds one step of a plan.
func (g *grower) op(o plan.Op, source any, nodes []any) {
	if late(o) && o.Kind != plan.OpProc {
		return
	}
	switch o.Kind {
	case plan.OpDir:
		g.dir(o.Target, o.Mode)
	case plan.OpProc:
		g.dir(o.Target, 0o755)
	case plan.OpSymlink:
		g.in(o.Target, func(dir result, name string) { g.add(o.Target, unix.SYS_SYMLINKAT, o.Source, dir, name) })
	case plan.OpBind, plan.OpRoBind, plan.OpMaskFile:
		set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
		if o.Kind != plan.OpBind {
			set |= unix.MOUNT_ATTR_RDONLY
		}
		g.show(o.Target, source, set, o.Kind == plan.OpMaskFile || o.File)
	case plan.OpTmpfs:
		g.mount(o.Target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, g.memory(o.Mode, o.Size))
	case plan.OpMaskDir:
		flags := unix.MS_NOSUID | unix.MS_NODEV
		if !o.Open {
			flags |= unix.MS_RDONLY
		}
		g.mount(o.Target, "tmpfs", flags, g.memory(o.Mode, 0))
	case plan.OpRemountRo:
		fd := g.at(o.Target)
		g.attr(o.Target, fd, unix.MOUNT_ATTR_RDONLY, 0)
		g.add("close", unix.SYS_CLOSE, fd)
	case plan.OpDev:
		g.dev(o.Target, nodes)
	default: // a step that is not known must not be left out
		g.add("unknown step "+string(o.Kind), unix.SYS_CLOSE, -1)
	}
}

// inMemory reports whether target lies in a folder of memory, where its mount
// point has to be made.
func (g *grower) inMemory(target string) bool {
	for dir := path.Dir(target); dir != "/"; dir = path.Dir(dir) {
		switch g.kinds[dir] {
		case "":
		case plan.OpDir, plan.OpTmpfs, plan.OpMaskDir, plan.OpDev:
			return true
		default:
			return false
		}
	}
	return true
}

// at opens what is at target, the last mount there.
func (g *grower) at(target string) result {
	rel := strings.TrimPrefix(target, "/")
	if rel == "" {
		rel = "."
	}
	return g.openat2(g.root, rel, inTree)
}

// in adds what is done in the folder of target with its name.
func (g *grower) in(target string, do func(dir result, name string)) {
	dir := g.at(path.Dir(target))
	do(dir, path.Base(target))
	g.add("close", unix.SYS_CLOSE, dir)
}

// dir makes a folder in memory, unless there is one.
func (g *grower) dir(target string, mode uint32) {
	g.in(target, func(dir result, name string) {
		g.add("make "+target, unix.SYS_MKDIRAT, dir, name, int(mode)).allow = unix.EEXIST
		if g.owner != nil {
			g.add("give away "+target, unix.SYS_FCHOWNAT, dir, name, g.owner.UID, g.owner.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
	})
}

// point makes the mount point of target, where there is none.
func (g *grower) point(target string, file bool) {
	switch {
	case !g.inMemory(target):
	case file:
		g.in(target, func(dir result, name string) {
			g.add("make "+target, unix.SYS_MKNODAT, dir, name, unix.S_IFREG|0o444, 0).allow = unix.EEXIST
		})
	default:
		g.dir(target, 0o755)
	}
}

// show mounts what was taken from the host.
func (g *grower) show(target string, source any, set uint64, file bool) {
	g.point(target, file)
	g.attr("attributes of "+target, source, set, unix.AT_RECURSIVE)
	fd := g.at(target)
	g.add(target, unix.SYS_MOVE_MOUNT, source, "", fd, "", empty)
	g.add("close", unix.SYS_CLOSE, fd)
	g.release(source)
}

// release closes a source that has its place.
func (g *grower) release(source any) {
	if !g.borrowed {
		g.add("close", unix.SYS_CLOSE, source)
	}
}

// mount mounts a file system of the kernel's, at a path that no other process can
// put a link into, and moves it to its place, which may be a folder that we
// cannot enter.
func (g *grower) mount(target, kind string, flags int, data string) {
	g.point(target, false)
	fd := g.at(target)
	g.add(target, unix.SYS_MOUNT, kind, treeNew, kind, flags, data)
	g.add(target, unix.SYS_MOVE_MOUNT, fdcwd, treeNew, fd, "", unix.MOVE_MOUNT_T_EMPTY_PATH)
	g.add("close", unix.SYS_CLOSE, fd)
}

// dev makes what bubblewrap has in /dev.
func (g *grower) dev(target string, nodes []any) {
	g.mount(target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, g.memory(0o755, 0))
	for i, name := range devices {
		g.show(path.Join(target, name), nodes[i], unix.MOUNT_ATTR_NOSUID, true)
	}
	for _, link := range [][2]string{
		{"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"fd", "/proc/self/fd"}, {"core", "/proc/kcore"}, {"ptmx", "pts/ptmx"},
	} {
		g.in(path.Join(target, link[0]), func(dir result, name string) { g.add(target, unix.SYS_SYMLINKAT, link[1], dir, name) })
	}
	g.dir(path.Join(target, "shm"), 0o755)
	g.mount(path.Join(target, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// build makes the tree in the mount namespace of the calling thread, in which
// [Stage] is an empty folder in memory. Taken are the descriptors of the sources,
// which stay the caller's.
func (t *Tree) build(taken []int, owner *Down) error {
	p := newProgram(len(t.Ops))
	all := make([]any, len(taken))
	for i, fd := range taken {
		all[i] = fd
	}
	p.add("set the mask of modes", unix.SYS_UMASK, 0) // the thread has left that of the process
	t.grow(p, all, owner, true)
	p.run()
	return p.err()
}

// start starts bubblewrap from the calling thread in a user namespace and
// a mount namespace of its own, in which the tree is mounted. No part of it is
// seen by anybody else, and bubblewrap makes namespaces of its own from there.
func (t *Tree) start(bwrap string, argv []string, files []*os.File) (*child, error) {
	p := newProgram(len(t.Ops))
	uid, gid := os.Geteuid(), os.Getegid()
	mask := p.get("set the mask of modes", unix.SYS_UMASK, 0)
	p.add("follow our end", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
	p.add("make a session", unix.SYS_SETSID)
	for _, f := range [][2]string{
		{"setgroups", "deny"}, {"uid_map", fmt.Sprintf("%d %d 1\n", uid, uid)}, {"gid_map", fmt.Sprintf("%d %d 1\n", gid, gid)},
	} {
		fd := p.get("open "+f[0], unix.SYS_OPENAT, fdcwd, "/proc/self/"+f[0], unix.O_WRONLY|unix.O_CLOEXEC)
		p.add("write "+f[0], unix.SYS_WRITE, fd, f[1], len(f[1]))
		p.add("close", unix.SYS_CLOSE, fd)
	}
	p.add("make the mounts private", unix.SYS_MOUNT, 0, "/", 0, unix.MS_PRIVATE|unix.MS_REC, 0)
	var taken []any
	for _, source := range t.sources() {
		taken = append(taken, p.take(source))
	}
	p.add("the staging folder", unix.SYS_MOUNT, "tmpfs", Stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m")
	t.grow(p, taken, nil, false)
	p.add("set the mask of modes", unix.SYS_UMASK, mask)
	p.add("go to the root", unix.SYS_CHDIR, "/")
	var high []result
	for _, f := range files {
		high = append(high, p.get("pass a descriptor", unix.SYS_FCNTL, int(f.Fd()), unix.F_DUPFD_CLOEXEC, len(files)))
	}
	for i, fd := range high {
		p.add("pass a descriptor", unix.SYS_DUP3, fd, i, 0)
	}
	blocked := uint64(1) << (server.Stop - 1)
	p.add("set the mask of signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, unsafe.Pointer(&blocked), 0, 8)
	p.add("execute "+bwrap, unix.SYS_EXECVE, bwrap, p.texts(argv), p.texts(nil))
	pid, err := p.fork(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)
	if err != nil {
		return nil, err
	}
	return &child{pid: pid}, nil
}
