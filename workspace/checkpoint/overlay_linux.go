package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// mountAttrs are the attributes of each mount that this package makes.
const mountAttrs = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// moveMountBeneath is MOVE_MOUNT_BENEATH of Linux 6.5.
const moveMountBeneath = 0x200

// maxParam is the longest string that fsconfig(2) takes, with its NUL.
const maxParam = 256

// mount makes the overlay and returns it as a detached mount. The mount is
// made by fsopen(2), so neither the number of layers nor the characters of
// their paths are limited by a line of options.
func (o overlay) mount() (*os.File, error) {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen overlay: %w", err)
	}
	defer unix.Close(fd)
	options := [][2]string{{"source", o.source}, {"index", "off"}, {"metacopy", "off"}, {"redirect_dir", "off"}}
	for _, kv := range options {
		if err := unix.FsconfigSetString(fd, kv[0], kv[1]); err != nil {
			return nil, explain(fd, "option "+kv[0], err)
		}
	}
	if o.userxattr {
		if err := unix.FsconfigSetFlag(fd, "userxattr"); err != nil {
			return nil, explain(fd, "option userxattr", err)
		}
	}
	spaces := map[[2]workspace.Owner]*os.File{}
	defer func() {
		for _, ns := range spaces {
			ns.Close()
		}
	}()
	for i, l := range o.lowers {
		release, err := addLower(fd, l, spaces, filepath.Join(o.spare, fmt.Sprintf("%s%d", sparePrefix, i)))
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if o.upper != "" {
		for _, p := range [][2]string{{"upperdir", o.upper}, {"workdir", o.work}} {
			dir, err := openFolder(p[1])
			if err != nil {
				return nil, err
			}
			err = setFolder(fd, p[0], dir, p[1])
			dir.Close()
			if err != nil {
				return nil, err
			}
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, explain(fd, "create", err)
	}
	mnt, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, mountAttrs)
	if err != nil {
		return nil, explain(fd, "fsmount", err)
	}
	return os.NewFile(uintptr(mnt), "overlay"), nil
}

// addLower appends a lower folder, through an idmapped mount if its files
// belong to another owner than the workspace's. spare is a path where a folder
// can be made, and spaces keeps user namespaces for the next layer. release is
// called when the overlay is there.
func addLower(fd int, l lower, spaces map[[2]workspace.Owner]*os.File, spare string) (release func(), err error) {
	dir, err := openFolder(l.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if l.from == l.to {
		return func() {}, setFolder(fd, "lowerdir+", dir, l.path)
	}
	ns, ok := spaces[[2]workspace.Owner{l.from, l.to}]
	if !ok {
		if ns, err = workspace.OwnerNamespace(l.from, l.to); err != nil {
			return nil, err
		}
		spaces[[2]workspace.Owner{l.from, l.to}] = ns
	}
	mapped, err := workspace.MountFor(dir, ns)
	if err != nil {
		return nil, fmt.Errorf("idmapped mount of %s: %w", l.path, err)
	}
	release = func() { mapped.Close() }
	if atLeast(6, 15) {
		if err := setFolder(fd, "lowerdir+", mapped, l.path); err != nil {
			release()
			return nil, err
		}
		return release, nil
	}
	// Older kernels make overlays only of mounts that are attached somewhere.
	release = func() {
		_ = detach(spare)
		mapped.Close()
		_ = os.Remove(spare)
	}
	if err = os.Mkdir(spare, 0o700); err == nil {
		err = attach(mapped, spare)
	}
	var over *os.File
	if err == nil {
		over, err = openFolder(spare)
	}
	if err == nil {
		err = setFolder(fd, "lowerdir+", over, spare)
		over.Close()
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// atLeast reports whether the kernel has that version.
func atLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	return err == nil && (a > major || a == major && b >= minor)
}

// setFolder sets a parameter to an open folder, or to its path on kernels
// before 6.13.
func setFolder(fd int, key string, dir *os.File, path string) error {
	if err := unix.FsconfigSetFd(fd, key, int(dir.Fd())); err == nil {
		return nil
	}
	if key != "lowerdir+" { // only these two are unescaped by the kernel
		path = strings.ReplaceAll(path, `\`, `\\`)
	}
	if len(path) >= maxParam {
		return fmt.Errorf("%s: the path is longer than %d bytes, which this kernel cannot mount: %w", key, maxParam-1, unix.ENAMETOOLONG)
	}
	if err := unix.FsconfigSetString(fd, key, path); err != nil {
		return explain(fd, key, err)
	}
	return nil
}

// explain adds what the kernel logged about the context fd to an error.
func explain(fd int, what string, err error) error {
	var lines []string
	buf := make([]byte, 1024)
	for len(lines) < 8 {
		n, e := unix.Read(fd, buf)
		if e != nil || n <= 0 {
			break
		}
		lines = append(lines, strings.TrimSpace(string(buf[:n])))
	}
	if len(lines) == 0 {
		return fmt.Errorf("overlay %s: %w", what, err)
	}
	return fmt.Errorf("overlay %s: %w: %s", what, err, strings.Join(lines, "; "))
}

// attach mounts the detached mount over what path shows now.
func attach(mnt *os.File, path string) error {
	if err := unix.MoveMount(int(mnt.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount at %s: %w", path, err)
	}
	return nil
}

// attachBeneath mounts the detached mount under the topmost one at path.
func attachBeneath(mnt *os.File, path string) error {
	return unix.MoveMount(int(mnt.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH|moveMountBeneath)
}

// detach unmounts the topmost mount at path. What has it open keeps it.
func detach(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// cloneMount returns a detached copy of the mount, or of the folder, at path.
func cloneMount(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("clone the mount at %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// setReadOnly makes the file system mounted at path read-only in every mount
// namespace.
func setReadOnly(path string) error {
	fd, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.FsconfigSetFlag(fd, "ro"); err != nil {
		return err
	}
	return unix.FsconfigReconfigure(fd)
}

// forget has the file system mounted at path look up anew what nothing has open:
// the kernel drops the names that it has cached of a file system that is
// remounted. Its options stay.
func forget(path string) error {
	fd, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("remount %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.FsconfigReconfigure(fd); err != nil {
		return explain(fd, "remount", err)
	}
	return nil
}

// mountsAt lists what is mounted at path in this mount namespace, the topmost
// last.
func mountsAt(path string) ([]mounted, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []mounted
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 4<<20) // an overlay's line names all its layers
	for sc.Scan() {
		// 36 35 98:0 /root /mount/point options… - type source options
		left, right, ok := strings.Cut(sc.Text(), " - ")
		fields, after := strings.Fields(left), strings.Fields(right)
		if ok && len(fields) > 4 && len(after) > 1 && unescape(fields[4]) == path {
			list = append(list, mounted{fsType: after[0], source: unescape(after[1])})
		}
	}
	return list, sc.Err()
}

// unescape undoes the octal escapes of mountinfo; see proc(5).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}

// inUserNamespace reports whether root here is not root of the machine.
func inUserNamespace() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(data))
	return err == nil && !(len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295")
}

// probeOverlay mounts a tiny overlay in the folder dir and takes it away. Its
// error says why there can be none.
func probeOverlay(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("this process is not root, and only root mounts an overlay where a container sees it")
	}
	for _, sub := range []string{"a", "b", "upper", "work", "view"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	const text = "probe"
	if err := os.WriteFile(filepath.Join(dir, "a", "f"), []byte(text), 0o600); err != nil {
		return err
	}
	view := filepath.Join(dir, "view")
	o := overlay{
		lowers: []lower{{path: filepath.Join(dir, "a")}, {path: filepath.Join(dir, "b")}},
		upper:  filepath.Join(dir, "upper"), work: filepath.Join(dir, "work"), source: "probe", userxattr: inUserNamespace(),
	}
	mnt, err := o.mount()
	if err != nil {
		return err
	}
	defer mnt.Close()
	if err := attach(mnt, view); err != nil {
		return err
	}
	defer func() { _ = detach(view) }()
	// A file of the lower folder is read, removed and hidden, and a folder
	// replaces it, which needs whiteouts and an extended attribute.
	f, err := os.Open(filepath.Join(view, "f"))
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, 64))
	f.Close()
	if err != nil || string(data) != text {
		return fmt.Errorf("the overlay shows %q for %q: %w", data, text, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(view, "f")), os.Mkdir(filepath.Join(view, "f"), 0o700)); err != nil {
		return err
	}
	opaque := opaqueName(o.userxattr)
	if v, err := getxattr(filepath.Join(dir, "upper", "f"), opaque); err != nil || v != "y" {
		return fmt.Errorf("the file system of %s cannot hold %s (%q: %w)", dir, opaque, v, err)
	}
	return nil
}
