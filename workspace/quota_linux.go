package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// toolTimeout bounds each call of a file system tool.
const toolTimeout = time.Minute

// quotaPossible returns why there can be no quota here, or nil.
func quotaPossible() error {
	if os.Geteuid() != 0 {
		return errors.New("we are not root")
	}
	if _, err := os.Stat(loopControl); err != nil {
		return fmt.Errorf("there are no loop devices: %w", err)
	}
	for _, tool := range quotaTools {
		if _, err := findTool(tool); err != nil {
			return err
		}
	}
	return nil
}

const loopControl = "/dev/loop-control"

var (
	quotaTools  = []string{"mkfs.ext4", "mount", "resize2fs"}
	toolFolders = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"}
)

// quotaSources are the paths that quotaPossible looks at.
func quotaSources() []string {
	out := []string{loopControl}
	for _, tool := range quotaTools {
		for _, dir := range toolFolders {
			out = append(out, filepath.Join(dir, tool))
		}
	}
	return out
}

// findTool looks for a system tool also where only root's PATH leads.
func findTool(name string) (string, error) {
	for _, dir := range toolFolders {
		p := filepath.Join(dir, name)
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// run runs a tool with a minimal environment. Its complaint becomes the error.
func run(ctx context.Context, tool string, args ...string) error {
	path, err := findTool(tool)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w: %s", tool, err, bytes.TrimSpace(out[:min(len(out), 500)]))
	}
	return nil
}

// makeImage makes a file system of size bytes whose root belongs to o. The
// image gets its name when it is complete.
func makeImage(ctx context.Context, image string, size int64, o Owner) (err error) {
	tmp := image + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	if err := errors.Join(f.Truncate(roundQuota(size)), f.Close()); err != nil {
		return err
	}
	err = run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096",
		"-E", fmt.Sprintf("root_owner=%d:%d,lazy_itable_init=1,lazy_journal_init=1,nodiscard", o.UID, o.GID), tmp)
	if err != nil {
		return err
	}
	return os.Rename(tmp, image)
}

// mountImage mounts image at path unless it is mounted there.
func mountImage(ctx context.Context, image, path string) error {
	device, err := mountedDevice(path)
	if err != nil {
		return err
	}
	if device != "" {
		if backing := backingFile(device); backing != image {
			return fmt.Errorf("something else is mounted there: %s of %s", device, backing)
		}
		return nil
	}
	if err := errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0)); err != nil {
		return err
	}
	// mount(8) takes the loop device that has the image already, should
	// another mount namespace still use it, and marks a new one to vanish
	// with the mount.
	if err := run(ctx, "mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", image, path); err != nil {
		return err
	}
	// The empty folder would belong to root in the sandbox's workspace.
	if err := os.Remove(filepath.Join(path, "lost+found")); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	return nil
}

// mountedDevice returns the loop device mounted at path, or nothing when path
// is no mount point.
func mountedDevice(path string) (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	device := ""
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20) // overlay mounts have long lines
	for sc.Scan() {
		// 36 35 98:0 /root /mount/point options… - type source options
		left, right, ok := strings.Cut(sc.Text(), " - ")
		fields, after := strings.Fields(left), strings.Fields(right)
		if ok && len(fields) > 4 && len(after) > 1 && unescape(fields[4]) == path {
			device = unescape(after[1]) // the last one lies on top
		}
	}
	return device, sc.Err()
}

// unescape undoes the octal escapes of mountinfo; see proc(5).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// backingFile returns the file behind a loop device.
func backingFile(device string) string {
	data, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(data), "\n")
}

// unmountImage unmounts path until nothing is mounted there and makes sure
// that no loop device holds the image any more.
//
// Another mount namespace may have a copy of the mount: where mounts are
// private, every process that makes a namespace at the time of the mount takes
// one along, such as the start of any container or sandbox of this machine.
// The kernel removes such copies with the folder that they are mounted on.
// What uses the file system by another path, as a container does with its bind
// mount, keeps it; the error is then [sandbox.CodeBusy].
func unmountImage(ctx context.Context, image, path string) error {
	for {
		device, err := mountedDevice(path)
		if err != nil {
			return quotaError(path, err)
		}
		if device == "" {
			break
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return stillUsed(path, err)
		}
	}
	if device := loopOf(image); device != "" {
		if err := os.Remove(path); err == nil {
			if err := os.Mkdir(path, 0); err != nil {
				return statedir.Unavailable("remove workspace", path, err)
			}
		}
	}
	// The device goes in the moment of the last unmount; the kernel may need
	// a little longer to say so.
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		device := loopOf(image)
		if device == "" {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return stillUsed(path, fmt.Errorf("%s still has its image", device))
		}
	}
}

func loopOf(image string) string {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.TrimSuffix(string(data), "\n") == image {
			return filepath.Base(filepath.Dir(filepath.Dir(f)))
		}
	}
	return ""
}

func stillUsed(path string, err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "remove workspace", Resource: path, Err: err, Retryable: true,
		Message: "the workspace is in use",
		Hint:    "end what uses it (fuser -vm " + path + ") and try again",
	}
}

// usedOf is [Used].
func usedOf(path string) (bytes, size int64, own bool) {
	var here, above unix.Stat_t
	var fs unix.Statfs_t
	if unix.Lstat(path, &here) != nil || unix.Lstat(filepath.Dir(path), &above) != nil || here.Dev == above.Dev || unix.Statfs(path, &fs) != nil {
		return 0, 0, false
	}
	used := int64(fs.Blocks - fs.Bfree)
	return used * fs.Bsize, (used + int64(fs.Bavail)) * fs.Bsize, true
}
