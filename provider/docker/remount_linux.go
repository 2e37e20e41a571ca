package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// Remount implements [sandbox.Remounter], see exchange for how. It needs root,
// and an engine whose processes are those of this machine.
func (h *handle) Remount(ctx context.Context, target string, mount *os.File) error {
	if err := h.remountable(target, mount); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return h.cannot(target, "only root can enter the namespaces of the container", nil)
	}
	e, err := h.exchange(target, mount)
	if err != nil {
		return err
	}
	defer e.close()
	return h.guest.Remount(ctx, target, func(ctx context.Context) error {
		select {
		case <-h.guest.Done(): // while the guest lives, no other process has its number
			return h.guest.Err()
		default:
			return e.run(ctx)
		}
	})
}

// remountable refuses what is no folder of the Spec, and what is no mount of a
// folder.
func (h *handle) remountable(target string, mount *os.File) error {
	invalid := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "remount", Field: field, Resource: h.info.Name, Message: message}
	}
	found := slices.ContainsFunc(h.spec.Mounts, func(m sandbox.Mount) bool {
		return m.Target == target && (m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleBind)
	})
	if !found || path.Clean(target) != target || !path.IsAbs(target) || target == "/" {
		return invalid("target", strconv.Quote(target)+" is no folder of the host that the sandbox mounts")
	}
	if mount == nil {
		return invalid("mount", "there is no mount")
	}
	st, err := mount.Stat()
	if err != nil || !st.IsDir() {
		return invalid("mount", "the descriptor is not that of a folder")
	}
	return nil
}

func (h *handle) cannot(target, message string, err error) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "remount", Resource: target, Message: message, Err: err, Hint: "recreate the sandbox instead: sandbox recreate"}
}

// An exchange puts a detached mount at a place in the mount namespace of a
// container. Code inside runs meanwhile and is hostile: it can rename and link in
// what it can write, and cannot mount, as it has no capability in the user
// namespace that owns the container's mounts. So the place is what the table of
// mounts says, each folder above it is one that code inside cannot change, and it
// is resolved once, without links, to a descriptor.
type exchange struct {
	h      *handle
	target string
	mount  int // detached
	pidfd  int // of the container's first process
	pid    int
	proc   *os.File          // our /proc, which is not there in the container's namespace
	uid    uint32            // of the sandbox
	step   func(*spot) error // in the container; replace
}

// exchange checks what can be checked from here.
func (h *handle) exchange(target string, mount *os.File) (*exchange, error) {
	e := &exchange{h: h, target: target, mount: int(mount.Fd()), pid: h.info.PID, uid: uint32(h.spec.UID), pidfd: -1}
	e.step = e.replace
	if err := detached(e.mount); err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "remount", Field: "mount", Resource: h.info.Name, Message: "the descriptor is not that of a detached mount", Err: err}
	}
	var err error
	if e.pidfd, err = unix.PidfdOpen(e.pid, 0); err != nil {
		return nil, h.cannot(target, "the processes of the engine are not those of this machine", err)
	}
	if e.proc, err = os.Open("/proc"); err == nil {
		err = e.isOurs()
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *exchange) close() {
	if e.pidfd >= 0 {
		unix.Close(e.pidfd)
	}
	if e.proc != nil {
		e.proc.Close()
	}
}

// detached returns an error unless fd is the root of a mount that is not in the
// table of mounts of this process: the options of one that is would be changed for
// the host.
func detached(fd int) error {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 || st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("it is not the root of a mount")
	}
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	if id := strconv.FormatUint(st.Mnt_id, 10) + " "; bytes.HasPrefix(table, []byte(id)) || bytes.Contains(table, []byte("\n"+id)) {
		return errors.New("it is mounted on this machine")
	}
	return nil
}

// isOurs returns an error unless the process is the first one of the container.
// The guest that we speak with is that process, so as long as it lives the number
// is not another's.
func (e *exchange) isOurs() error {
	dir := "/proc/" + strconv.Itoa(e.pid)
	cgroup, err := os.ReadFile(dir + "/cgroup")
	if err != nil || len(e.h.info.ID) < 12 || !bytes.Contains(cgroup, []byte(e.h.info.ID)) {
		return e.h.cannot(e.target, "the process that the engine names is not one of the container on this machine", err)
	}
	status, err := os.ReadFile(dir + "/status")
	if err == nil && !isFirst(status) {
		err = errors.New("it is not the first one of its namespace")
	}
	if err == nil {
		err = unix.PidfdSendSignal(e.pidfd, 0, nil, 0) // what was read is of that process, if it lives
	}
	if err != nil {
		return e.h.cannot(e.target, "the process that the engine names is not the first one of the container", err)
	}
	return nil
}

// isFirst reports whether the process of a status of proc(5) is process 1 of a
// namespace directly below ours.
func isFirst(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(list)
			return len(f) == 2 && f[1] == "1"
		}
	}
	return false
}

// run does the exchange on a thread of its own, which ends with it: its view of
// the file system is the container's from then on.
func (e *exchange) run(ctx context.Context) error {
	done := make(chan error, 1)
	var begin func()
	begin = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread never ends, and /proc/self is what it sees. While
			// it is locked here, the next goroutine gets another one.
			other := make(chan struct{})
			go func() { defer close(other); begin() }()
			<-other
			runtime.UnlockOSThread()
			return
		}
		done <- e.inside(ctx)
	}
	go begin()
	return <-done
}

// inside enters the container's namespace and exchanges the mounts there.
func (e *exchange) inside(ctx context.Context) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return e.h.cannot(e.target, "this thread cannot have a view of the file system of its own", err)
	}
	if err := unix.Setns(e.pidfd, unix.CLONE_NEWNS); err != nil {
		return e.h.cannot(e.target, "the namespace of the container cannot be entered", err)
	}
	table, err := e.table()
	if err != nil {
		return err
	}
	p, err := e.find(table)
	if err != nil {
		return err
	}
	defer p.close()
	if err := e.restrict(p.options); err != nil {
		return e.failed("the options of the old mount cannot be given to the new one", err)
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Errorf(sandbox.CodeTimeout, "remount", "given up: %w", err)
	}
	if err := e.step(p); err != nil {
		return err
	}
	return e.confirm(p)
}

// confirm returns an error unless the new mount is what is seen at the target.
func (e *exchange) confirm(p *spot) error {
	var want, got unix.Statx_t
	err := unix.Statx(e.mount, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &want)
	if err == nil {
		err = unix.Statx(p.parent, p.name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &got)
	}
	if err == nil && got.Mnt_id != want.Mnt_id {
		err = errors.New("another mount is seen there")
	}
	if err != nil {
		return e.failed("the new mount is not seen at its place", err)
	}
	return nil
}

// table returns the mounts of the container, as its kernel numbers them, in order.
func (e *exchange) table() ([]mounted, error) {
	fd, err := unix.Openat(int(e.proc.Fd()), strconv.Itoa(e.pid)+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, e.failed("it cannot be seen what is mounted in the container", err)
	}
	f := os.NewFile(uintptr(fd), "mountinfo")
	defer f.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(f); err != nil {
		return nil, e.failed("it cannot be seen what is mounted in the container", err)
	}
	list, err := parseMounted(text.String())
	if err == nil && unix.PidfdSendSignal(e.pidfd, 0, nil, 0) != nil {
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, e.failed("it cannot be seen what is mounted in the container", err)
	}
	return list, nil
}

func (e *exchange) failed(message string, err error) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "remount", Resource: e.target, Message: message, Err: err}
}

// A spot is a mount inside, and the folder in which its place is.
type spot struct {
	top     int      // root of the mount, O_PATH
	parent  int      // O_PATH
	name    string   // in parent
	options []string // of the mount
	covered int      // mounts below it at the same place
}

func (p *spot) close() {
	for _, fd := range []int{p.top, p.parent} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// find opens the place of the target, after it was made sure that there is a mount
// which code inside cannot have moved, and nothing is mounted below it.
func (e *exchange) find(table []mounted) (*spot, error) {
	p := &spot{top: -1, parent: -1, covered: -1}
	for _, m := range table {
		switch {
		case m.point == e.target:
			p.covered++
		case strings.HasPrefix(m.point, e.target+"/"):
			return nil, e.h.cannot(e.target, "another mount lies below it, at "+strconv.Quote(m.point), nil)
		}
	}
	if p.covered < 0 {
		if !slices.ContainsFunc(table, func(m mounted) bool { return m.point == sandbox.GuestDir+"/bin" }) {
			return nil, e.h.cannot(e.target, "the runtime of the container has no mounts that could be exchanged", nil)
		}
		return nil, notMounted("remount", e.h.info.Name, e.target)
	}
	if err := e.walk(p, table); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// walk goes from the root to the target by single names. Each folder on the way is
// checked as it was opened.
func (e *exchange) walk(p *spot, table []mounted) (err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	at, err := unix.Openat2(unix.AT_FDCWD, "/", &how)
	if err != nil {
		return e.failed("the root of the container cannot be opened", err)
	}
	names := strings.Split(strings.TrimPrefix(e.target, "/"), "/")
	for i, name := range names {
		above := "/" + path.Join(names[:i]...)
		if err := e.fixed(at, above, table); err != nil {
			unix.Close(at)
			return err
		}
		next, err := unix.Openat2(at, name, &how)
		if err != nil {
			unix.Close(at)
			return e.failed(strconv.Quote(path.Join(above, name))+" inside is no folder", err)
		}
		if i == len(names)-1 {
			p.parent, p.top, p.name = at, next, name
			break
		}
		unix.Close(at)
		at = next
	}
	m, st, err := mountAt(p.top, table)
	if err != nil {
		return e.failed("the mount inside cannot be examined", err)
	}
	if m.point != e.target || st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return e.failed("there is something else than the mount of the container", nil)
	}
	p.options = m.options
	return nil
}

// fixed returns an error if code inside could rename or replace what is in the open
// folder dir. An access control list shows in the bits of the group.
func (e *exchange) fixed(fd int, dir string, table []mounted) error {
	m, st, err := mountAt(fd, table)
	if err != nil {
		return e.failed("the folders above the mount cannot be examined", err)
	}
	if slices.Contains(m.options, "ro") || st.Uid == 0 && e.uid != 0 && st.Mode&0o022 == 0 {
		return nil
	}
	return e.h.cannot(e.target, "code inside may change the folder "+strconv.Quote(dir)+" above it", nil)
}

// mountAt returns the mount in which the open folder lies.
func mountAt(fd int, table []mounted) (m mounted, st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID|unix.STATX_BASIC_STATS, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = errors.New("the kernel does not number mounts (it has to be 5.8 or later)")
	}
	if err != nil {
		return m, st, err
	}
	for _, m := range table {
		if m.id == st.Mnt_id {
			return m, st, nil
		}
	}
	return m, st, errors.New("the mount is not in the table of mounts")
}

// restrict gives the new mount the options of the old one that restrict.
func (e *exchange) restrict(options []string) error {
	var attr unix.MountAttr
	for option, bit := range map[string]uint64{
		"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
		"nodiratime": unix.MOUNT_ATTR_NODIRATIME, "nosymfollow": unix.MOUNT_ATTR_NOSYMFOLLOW,
	} {
		if slices.Contains(options, option) {
			attr.Attr_set |= bit
		}
	}
	if slices.Contains(options, "noatime") {
		attr.Attr_clr |= unix.MOUNT_ATTR__ATIME
		attr.Attr_set |= unix.MOUNT_ATTR_NOATIME
	}
	attr.Propagation = unix.MS_PRIVATE
	return unix.MountSetattr(e.mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

// replace puts the new mount beneath the old one and takes that away, so that at no
// time there is none, also when this process is killed in between: what is beneath
// then is not seen. Kernels before 6.5 cannot do that, see swap.
func (e *exchange) replace(p *spot) error {
	for ; p.covered > 0; p.covered-- { // of a process that was killed
		if err := e.takeAway(p); err != nil {
			return e.failed("what another process has left at the mount cannot be taken away", err)
		}
		next, err := unix.Openat2(p.parent, p.name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return e.failed("the mount inside cannot be opened", err)
		}
		unix.Close(p.top)
		p.top = next
	}
	err := unix.MoveMount(e.mount, "", p.top, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH|moveMountBeneath)
	if err == unix.EINVAL {
		return e.swap(p)
	}
	if err != nil {
		return e.failed("the new mount cannot be put beneath the old one", err)
	}
	if err := e.takeAway(p); err != nil {
		return e.failed("the old mount cannot be taken away; the new one lies beneath it", err)
	}
	return nil
}

// moveMountBeneath is MOVE_MOUNT_BENEATH of move_mount(2).
const moveMountBeneath = 0x200

// swap takes the old mount away and puts the new one at its place, or the old one
// again where that fails. A process that is killed in between leaves none, which
// [Provider.Open] finds.
func (e *exchange) swap(p *spot) error {
	old, err := unix.OpenTree(p.top, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return e.failed("the old mount cannot be kept", err)
	}
	defer unix.Close(old)
	if err := e.takeAway(p); err != nil {
		return e.failed("the old mount cannot be taken away", err)
	}
	err = unix.MoveMount(e.mount, "", p.parent, p.name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err == nil {
		return nil
	}
	if back := unix.MoveMount(old, "", p.parent, p.name, unix.MOVE_MOUNT_F_EMPTY_PATH); back != nil {
		lost := notMounted("remount", e.h.info.Name, e.target)
		lost.Err = fmt.Errorf("%w, and the old one could not be put back: %w", err, back)
		return lost
	}
	return e.failed("the new mount cannot be put into the container", err)
}

// takeAway detaches the mount of which p.top is the root. The working directory of
// the thread is the only name that it has here.
func (e *exchange) takeAway(p *spot) error {
	if err := unix.Fchdir(p.top); err != nil {
		return err
	}
	err := unix.Unmount(".", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if root := unix.Chdir("/"); err == nil {
		err = root
	}
	return err
}

// A mounted is one line of a mountinfo, see proc(5).
type mounted struct {
	id      uint64
	point   string
	options []string
}

func parseMounted(text string) ([]mounted, error) {
	var list []mounted
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("the line %q of mountinfo is too short", line)
		}
		id, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the line %q of mountinfo has no number", line)
		}
		list = append(list, mounted{id, unescape.Replace(f[4]), strings.Split(f[5], ",")})
	}
	return list, nil
}

var _ sandbox.Remounter = (*handle)(nil)
