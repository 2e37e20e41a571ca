//go:build linux

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stage is the folder in which the sources of an instance that root starts lie,
// each under its number. It exists on every machine on which bubblewrap works,
// which puts its own new root there.
const Stage = "/tmp"

// Staged is the path of the source number i.
func Staged(i int) string { return Stage + "/" + strconv.Itoa(i) }

// Down is root's way down into an instance, which must not be root's: it shows the
// instance's user the folders that he cannot reach by path, and has bubblewrap be
// started as that user for good.
//
// An orchestrator that is root keeps workspaces in folders that only root may
// pass through. So the sources of the instance's mounts are opened here, without
// following any link, and bound into a private mount namespace, where the
// unprivileged user finds them under numbers.
type Down struct {
	UID, GID int      // never 0
	Sources  []string // absolute, clean and without links; Order.Args name them as [Staged]
}

// An Unreachable error says that a source is not there, or that a link leads
// to it.
type Unreachable struct {
	Path  string
	Cause error
}

// Error implements error.
func (u *Unreachable) Error() string { return "open " + strconv.Quote(u.Path) + ": " + u.Cause.Error() }

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Cause }

const (
	maxSources = 8192
	maxID      = 1<<32 - 2 // the highest one that is not reserved for "no id"
)

// check refuses what would not lead down.
func (d *Down) check() error {
	switch {
	case d.UID <= 0 || d.GID <= 0 || d.UID > maxID || d.GID > maxID:
		return fmt.Errorf("uid %d and gid %d must be above 0", d.UID, d.GID)
	case len(d.Sources) > maxSources:
		return errors.New("too many sources")
	}
	for _, s := range d.Sources {
		if !path.IsAbs(s) || path.Clean(s) != s || strings.ContainsRune(s, 0) {
			return fmt.Errorf("the source %q is not a clean absolute path", s)
		}
	}
	return nil
}

// prepare has the calling thread, and no other thread of this process, see the
// stage, and gives up what a process that becomes another user would keep. The
// thread is good for nothing but starting program, the instance's, afterwards: it
// must not be the first one of the process, and has to end.
func (d *Down) prepare(program string) error {
	if err := d.check(); err != nil {
		return err
	}
	if err := stage(program, d.Sources); err != nil {
		return err
	}
	if err := leaveKeys(); err != nil {
		return err
	}
	return leaveCapabilities()
}

// stage makes a mount namespace of the thread's own in which [Stage] holds the
// sources, and little else is mounted. All of them are opened before the first
// of them is mounted, so that none can hide another, and without following a
// link: the orchestrator has judged these very paths, and what has become a
// link since then was exchanged.
func stage(program string, sources []string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	trees, err := openSources(sources)
	defer closeAll(trees)
	if err != nil {
		return err
	}
	if onGround(program) {
		if err := leaveMounts(); err != nil {
			return fmt.Errorf("leave the mounts of the host: %w", err)
		}
	}
	if err := unix.Mount("tmpfs", Stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mount the staging folder: %w", err)
	}
	for i, tree := range trees {
		if err := put(tree, Staged(i)); err != nil {
			return fmt.Errorf("stage %s: %w", sources[i], err)
		}
	}
	return nil
}

// openSources takes what lies at paths, in that order. The caller closes what
// it returns, also beside an error.
func openSources(paths []string) (trees []int, err error) {
	for _, path := range paths {
		tree, err := openSource(path)
		if err != nil {
			return trees, &Unreachable{Path: path, Cause: err}
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// openSource takes what lies at path, with the mounts below it, and makes that private:
// what is mounted in it later must not appear on the host, whose mounts are shared
// wherever systemd runs. No name in /proc is needed for it: those of a thread that ends
// hold up the end of its process.
func openSource(path string) (tree int, err error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	tree, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	if err := private(tree); err != nil {
		unix.Close(tree)
		return -1, err
	}
	return tree, nil
}

// private ends the propagation of mounts to and from a tree. Before Linux 5.12 that
// cannot be done, which is an error where there is any.
func private(tree int) error {
	err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
	if err != unix.ENOSYS {
		return os.NewSyscallError("mount_setattr", err)
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err == nil && (bytes.Contains(mounts, []byte(" shared:")) || bytes.Contains(mounts, []byte(" master:"))) {
		err = fmt.Errorf("the mounts of the host are shared, which needs Linux 5.12 or later: %w", unix.ENOSYS)
	}
	return err
}

// put mounts tree at target, which it makes.
func put(tree int, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	// What is mounted over them hides their modes.
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := unix.Mkdir(target, 0o755); err != nil {
			return err
		}
	} else if err := unix.Mknod(target, unix.S_IFREG|0o644, 0); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// leaveKeys gives the thread an empty session keyring in place of the
// orchestrator's: whoever has one possesses the keys in it, whatever his user
// id. Where the call is not to be had, nothing that we start has it either.
func leaveKeys() error {
	_, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	switch errno {
	case 0, unix.ENOSYS, unix.EPERM:
		return nil
	}
	return fmt.Errorf("leave the session's keys: %w", errno)
}

// leaveCapabilities empties the sets from which a program that an ordinary
// user executes gets capabilities, whatever the "secure bits" say of the way
// from root to him: the inheritable and the ambient one.
func leaveCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	have[0].Inheritable, have[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	return nil
}
