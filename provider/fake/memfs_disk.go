// The memfs files are a file system in memory with the rules of Linux, as far
// as tests of sandboxes need them: modes and owners, symbolic and hard links,
// pipes and devices as mere names, mounts, read-only mounts and mounts of a
// bounded size. Operations fail with the errno of the kernel.
//
// A [Disk] holds volumes. An [FS] is what one sandbox sees: a root volume
// with other volumes mounted into it. A [View] does operations, either freely
// as a program inside does or confined to one mount as file tools are.

package fake

import (
	"io/fs"
	"sync"
	"syscall"
	"time"
)

// A Disk holds volumes, which may be mounted in several file systems at once.
// One lock orders everything on it, so every operation is atomic.
type memfsDisk struct {
	mu  sync.Mutex
	now func() time.Time
}

// NewDisk returns an empty disk whose files are stamped by now.
func newDisk(now func() time.Time) *memfsDisk { return &memfsDisk{now: now} }

// A Volume is a tree of files, or a single file, that can be mounted.
type memfsVolume struct {
	disk *memfsDisk
	root *node
	size int64 // bytes; 0 is unbounded
	used int64
}

// Tree returns a volume with one empty folder of the given owner and mode.
// Its files may have size bytes in all; 0 is unbounded.
func (d *memfsDisk) Tree(uid int, mode fs.FileMode, size int64) *memfsVolume {
	v := &memfsVolume{disk: d, size: size}
	v.root = v.newNode(fs.ModeDir|mode&^fs.ModeType, uid)
	v.root.entries = map[string]*node{}
	return v
}

// File returns a volume that is one file with the given content.
func (d *memfsDisk) File(uid int, mode fs.FileMode, content string) *memfsVolume {
	v := &memfsVolume{disk: d, used: int64(len(content))}
	v.root = v.newNode(mode.Perm(), uid)
	v.root.data = []byte(content)
	return v
}

// Used returns the bytes that the volume's files have.
func (v *memfsVolume) Used() int64 {
	v.disk.mu.Lock()
	defer v.disk.mu.Unlock()
	return v.used
}

// A node is what has a number on a real disk. It is guarded by Disk.mu.
type node struct {
	vol      *memfsVolume
	mode     fs.FileMode // kind and permissions
	uid      int
	modified time.Time
	links    int // names and open handles; content counts until there are none

	data    []byte           // of a regular file
	entries map[string]*node // of a folder
	parent  *node            // of a folder; its own for the top one
	target  string           // of a link; the name of a device
}

func (v *memfsVolume) newNode(mode fs.FileMode, uid int) *node {
	n := &node{vol: v, mode: mode, uid: uid, modified: v.disk.now(), links: 1}
	if mode.IsDir() {
		n.entries = map[string]*node{}
		n.parent = n
	}
	return n
}

// grow changes the length of a file, as far as the volume has room. What is
// new is zero.
func (n *node) grow(length int64) error {
	more := length - int64(len(n.data))
	if v := n.vol; v.size > 0 && more > v.size-v.used {
		return syscall.ENOSPC
	}
	n.vol.used += more
	if more <= 0 {
		n.data = n.data[:length]
	} else {
		n.data = append(n.data, make([]byte, more)...)
	}
	return nil
}

// release drops one name or handle.
func (n *node) release() {
	if n.links--; n.links == 0 && n.mode.IsRegular() {
		n.vol.used -= int64(len(n.data))
	}
}

func (n *node) touch() { n.modified = n.vol.disk.now() }

// put enters child as name, which is free.
func (n *node) put(name string, child *node) {
	n.entries[name] = child
	if child.mode.IsDir() {
		child.parent = n
	}
	n.touch()
}

// drop takes a name away.
func (n *node) drop(name string) *node {
	child := n.entries[name]
	delete(n.entries, name)
	n.touch()
	return child
}

// An info describes a node at one moment.
type info struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

func (n *node) info(name string) info {
	size := int64(len(n.data))
	if n.mode.Type() == fs.ModeSymlink {
		size = int64(len(n.target))
	}
	return info{name, size, n.mode, n.modified}
}
