package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

const opMap = "mount workspace"

// CanMap returns why [Map] cannot mount the folder for o, or nil: the caller is not
// root, the kernel has no ID-mapped mounts (Linux 5.12), or not of this file system.
// It mounts nothing where another process sees it.
func CanMap(folder string, o Owner) error {
	mnt, err := mapped(folder, o)
	if err != nil {
		return err
	}
	return mnt.Close()
}

// Map mounts the folder, which belongs to root, at place as one that belongs to o:
// what is root's in the folder is o's at place, and what o makes there is root's in
// the folder. Files of other users keep their owners. File systems that are mounted
// below the folder do not show. No program gets another user or a device through
// the mount.
//
// Map makes place, which lies in a folder of ours, where it is missing, and does
// nothing where it shows the folder for o already.
func Map(place, folder string, o Owner) error {
	fail := func(err error) error {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opMap, Resource: folder, Message: "the folder cannot be mounted for the sandbox's user", Err: err}
	}
	if err := o.check(); err != nil {
		return err
	}
	if shows(place, folder, o) {
		return nil
	}
	if err := Unmap(place); err != nil {
		return err
	}
	mnt, err := mapped(folder, o)
	if err != nil {
		return fail(err)
	}
	defer mnt.Close()
	for _, dir := range []string{filepath.Dir(place), place} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fail(err)
		}
	}
	if err := unix.MoveMount(int(mnt.Fd()), "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fail(fmt.Errorf("move_mount: %w", err))
	}
	if !shows(place, folder, o) {
		return errors.Join(fail(errors.New("another folder shows at "+place)), Unmap(place))
	}
	return nil
}

// Unmap takes away what is mounted at place, and place. What has a file there open,
// or has the mount as one of its own, keeps it. A place that is missing is no error,
// and no file below it is removed.
func Unmap(place string) error {
	for {
		err := unix.Unmount(place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) {
			break // nothing is mounted there, or nothing that this process could have mounted
		}
		if err != nil {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "unmount workspace", Resource: place, Message: "what is mounted there cannot be taken away", Err: err}
		}
	}
	if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) { // never with what is in it
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "unmount workspace", Resource: place, Message: "the folder is mounted, or holds files", Err: err, Hint: "unmount it: umount " + place}
	}
	return nil
}

// shows reports whether place is a mount of the folder for o.
func shows(place, folder string, o Owner) bool {
	var at unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, place, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_UID, &at) != nil ||
		at.Attributes_mask&at.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || at.Uid != uint32(o.UID) {
		return false
	}
	a, err := os.Lstat(place)
	if err != nil {
		return false
	}
	b, err := os.Lstat(folder)
	return err == nil && os.SameFile(a, b)
}

// mapped returns a detached mount of the folder for o.
func mapped(folder string, o Owner) (*os.File, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can make an ID-mapped mount")
	}
	dir, err := os.OpenFile(folder, unix.O_DIRECTORY|unix.O_NOFOLLOW|os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	ns, err := OwnerNamespace(Owner{}, o)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	mnt, err := MountFor(dir, ns)
	if err != nil {
		return nil, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(int(mnt.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		mnt.Close()
		return nil, fmt.Errorf("mount_setattr: %w", err)
	}
	return mnt, nil
}

// MountFor returns a detached mount of the open folder in which files belong to
// those to whom the user namespace ns maps their owners. It needs root.
func MountFor(dir, ns *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	mnt := os.NewFile(uintptr(fd), dir.Name())
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		mnt.Close()
		return nil, fmt.Errorf("mount_setattr: %w", err)
	}
	return mnt, nil
}

// OwnerNamespace makes a user namespace in which from and to have changed places and
// every other user is the same. A process has to be in it while it is made: one that
// is stopped before its first instruction and killed then.
func OwnerNamespace(from, to Owner) (*os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: swapped(from.UID, to.UID), GidMappings: swapped(from.GID, to.GID), GidMappingsEnableSetgroups: false,
		Ptrace: true, Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return ns, err
}

// swapped maps every id to itself, but a and b to each other.
func swapped(a, b int) []syscall.SysProcIDMap {
	const end = 1<<32 - 1 // the last id is none
	if a == b {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: end}}
	}
	if a > b {
		a, b = b, a
	}
	m := []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: 0, Size: a},
		{ContainerID: a, HostID: b, Size: 1},
		{ContainerID: a + 1, HostID: a + 1, Size: b - a - 1},
		{ContainerID: b, HostID: a, Size: 1},
		{ContainerID: b + 1, HostID: b + 1, Size: end - b - 1},
	}
	return slices.DeleteFunc(m, func(e syscall.SysProcIDMap) bool { return e.Size == 0 })
}
