package doctor

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

// A Host is the machine as the checks see it.
type Host struct {
	OS  string // as runtime.GOOS
	UID int    // of this process

	ReadFile func(path string) ([]byte, error)
	Lstat    func(path string) (fs.FileInfo, error)
	Owner    func(fi fs.FileInfo) (uid int, known bool)
	Writable func(path string) error // may we write there?
	Disk     func(path string) (Disk, error)
	Output   func(ctx context.Context, name string, args ...string) (string, error)
	Now      func() time.Time
}

// A Disk is a file system and its room.
type Disk struct {
	Type       string // "ext4", "tmpfs", …; empty is not known
	ReadOnly   bool
	Free       int64 // bytes that we may use
	Total      int64 // bytes
	FreeInodes int64 // 0 with Inodes 0: the file system does not count them
	Inodes     int64
}

func (h Host) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

// maxOutput bounds what is kept of a program's output in bytes.
const maxOutput = 64 << 10

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return string(out[:min(len(out), maxOutput)]), err
}
