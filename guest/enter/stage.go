//go:build linux

package enter

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// stage makes a mount namespace of our own in which [Stage] holds the
// sources. All of them are opened before the first of them is mounted, so that
// none can hide another, and without following a link: the orchestrator has judged
// these very paths, and what has become a link since then was exchanged.
func stage(sources []string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	fds := make([]int, len(sources))
	for i, s := range sources {
		fd, err := openSource(s)
		if err != nil {
			return fmt.Errorf("open %s: %w", s, err)
		}
		fds[i] = fd
	}
	if err := unix.Mount("tmpfs", Stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mount the staging folder: %w", err)
	}
	for i, fd := range fds {
		if err := bind(fd, Staged(i)); err != nil {
			return fmt.Errorf("stage %s: %w", sources[i], err)
		}
		unix.Close(fd)
	}
	return nil
}

func openSource(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// bind mounts what fd refers to, with the mounts below it, at target.
func bind(fd int, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
	} else {
		f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	return unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), target, "", unix.MS_BIND|unix.MS_REC, "")
}
