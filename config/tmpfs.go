package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

const (
	minTmpfs  = 1 << 20 // bytes; less is of no use
	pageSize  = 4096    // tmpfs sizes are whole pages
	homeMode  = 0o700
	stickyAll = 0o1777
)

// Where docker.home may say that the home lies.
const (
	HomeAuto   = "auto"
	HomeDisk   = "disk"
	HomeMemory = "memory"
)

// HomeOnDisk reports whether the home of r lies on the disk, where this machine
// can bound it: possible is why it cannot. A home that docker.tmpfs names lies
// in memory. The reason says why it is so, for people.
func (r Resolved) HomeOnDisk(possible error) (disk bool, reason string, err error) {
	field := r.field("docker.home")
	named := slices.ContainsFunc(r.Docker.Tmpfs, func(s string) bool {
		t, err := parseTmpfs(s)
		return err == nil && t.Target == sandbox.HomeDir
	})
	switch {
	case r.Kind == sandbox.KindBrowser:
		return false, "browsers keep nothing", nil
	case r.Docker.Home == HomeDisk && named:
		return false, "", &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "resolve", Field: field, Message: "the home is to lie on the disk, and docker.tmpfs names it as a folder in memory",
			Hint: "take it out of docker.tmpfs, or set docker.home to memory",
		}
	case r.Docker.Home == HomeDisk && possible != nil:
		return false, "", &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "resolve", Field: field, Err: possible, Message: "the home cannot be bounded on the disk",
			Hint: "it needs root, mkfs.ext4 (package e2fsprogs) and loop devices, and an engine on this machine; or set docker.home to auto or memory",
		}
	case r.Docker.Home == HomeDisk:
		return true, "set by " + r.Origin("docker.home"), nil
	case r.Docker.Home == HomeMemory:
		return false, "set by " + r.Origin("docker.home"), nil
	case named:
		return false, "docker.tmpfs names it", nil
	case possible != nil:
		return false, "it cannot be bounded on the disk here: " + possible.Error(), nil
	}
	return true, "docker.home is auto", nil
}

// parseTmpfs reads "TARGET:size=SIZE[,exec][,noexec][,mode=MODE]". The size is
// required: a tmpfs without one can take all memory.
func parseTmpfs(s string) (sandbox.Tmpfs, error) {
	target, options, _ := strings.Cut(s, ":")
	t := sandbox.Tmpfs{Target: path.Clean(target), Mode: stickyAll}
	if !strings.HasPrefix(target, "/") {
		return t, errors.New("the target is not absolute")
	}
	t.Owned = t.Target == sandbox.HomeDir || t.Target == "/run"
	switch t.Target {
	case sandbox.HomeDir:
		t.Mode = homeMode
	case "/run":
		t.Mode = 0o755
	}
	for o := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "size":
			n, err := ParseSize(value)
			if err != nil {
				return t, err
			}
			if n < minTmpfs {
				return t, errors.New("the size is below 1m")
			}
			t.Size = int64(n)
		case "mode":
			n, err := strconv.ParseUint(value, 8, 32)
			if err != nil || n > stickyAll {
				return t, fmt.Errorf("mode %q is no octal number up to 1777", value)
			}
			t.Mode = uint32(n)
		case "exec":
			t.Exec = true
		case "noexec":
			t.Exec = false
		case "rw", "nosuid", "nodev", "":
		default:
			return t, fmt.Errorf("option %q is not known", printable(o))
		}
	}
	if t.Size == 0 {
		return t, errors.New("it has no size")
	}
	return t, nil
}

// memoryFolders returns the size of /dev/shm and the tmpfs of r, in bytes.
// Together they never take more than half of memory, so that a full folder
// leaves room for programs. Volumes of the image that docker.tmpfs does not name
// get a share, and so does the home, where it is among them.
func memoryFolders(r Resolved, volumes []string, home bool) (shm int64, list []sandbox.Tmpfs, err error) {
	memory := int64(r.Docker.Memory)
	shm = int64(r.Docker.ShmSize)
	if shm == 0 {
		shm = pages(memory / 32)
	}
	budget := memory/2 - shm
	list = defaultTmpfs(budget, volumes, home)
	if r.Docker.Tmpfs != nil {
		if list, err = givenTmpfs(r.Docker.Tmpfs, budget, volumes, home); err != nil {
			return 0, nil, err
		}
	}
	if r.Kind == sandbox.KindBrowser {
		// Its programs are those of the image. A client of the DevTools protocol
		// has the browser write files where it likes, whatever policies say of
		// downloads; what it writes is never run.
		for i := range list {
			list[i].Exec = false
		}
	}
	field := "docker.tmpfs"
	if r.Docker.Tmpfs == nil {
		field = "docker.shmSize"
	}
	sum := shm
	for _, t := range list {
		sum += t.Size
		if t.Size < minTmpfs || sum > memory/2 {
			return 0, nil, &sandbox.Error{
				Code: sandbox.CodeValidation, Op: "build spec", Field: r.field(field),
				Message: fmt.Sprintf("/dev/shm with %s and the folders in memory need more than half of docker.memory, which is %s", Size(shm), r.Docker.Memory),
				Hint:    "raise docker.memory or lower docker.shmSize and the sizes in docker.tmpfs",
			}
		}
	}
	return shm, list, nil
}

// defaultTmpfs shares budget bytes among the folders that programs expect to
// be writable: with the default /dev/shm that is a quarter of memory for /tmp,
// an eighth for the home, a 16th for /var/tmp and a 32nd for /run. Programs may
// be run from all but /run, as builds do. Each volume of the image gets as much
// as /var/tmp, for which the others are smaller. What the home does not need,
// where it lies elsewhere, /tmp has.
func defaultTmpfs(budget int64, volumes []string, home bool) []sandbox.Tmpfs {
	part := budget / int64(15+2*len(volumes))
	list := []sandbox.Tmpfs{{Target: "/tmp", Size: pages(part * 12), Exec: true, Mode: stickyAll}}
	if home {
		list[0].Size = pages(part * 8)
		list = append(list, sandbox.Tmpfs{Target: sandbox.HomeDir, Size: pages(part * 4), Exec: true, Mode: homeMode, Owned: true})
	}
	list = append(list, []sandbox.Tmpfs{
		{Target: "/var/tmp", Size: pages(part * 2), Exec: true, Mode: stickyAll},
		{Target: "/run", Size: pages(part), Mode: 0o755, Owned: true},
	}...)
	for _, v := range volumes {
		list = append(list, volume(v, pages(part*2)))
	}
	return list
}

// volume is the folder in memory for a volume that the image declares.
func volume(target string, size int64) sandbox.Tmpfs {
	return sandbox.Tmpfs{Target: target, Size: size, Exec: true, Mode: 0o755, Owned: true}
}

// volumesOf returns the folders that the image declares as volumes and that
// nothing is mounted at.
func volumesOf(s sandbox.Spec, r Resolved, f Facts) ([]string, error) {
	var out []string
	for _, v := range f.Volumes {
		v = path.Clean("/" + v)
		if slices.Contains(out, v) ||
			slices.ContainsFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Target == v }) {
			continue
		}
		if err := hardening.TmpfsTarget(r.field("docker.image"), v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.Sort(out)
	if len(out) > maxVolumes {
		return nil, &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "build spec", Field: r.field("docker.image"), Resource: s.Image,
			Message: fmt.Sprintf("the image declares %d volumes, and at most %d get a folder", len(out), maxVolumes), Hint: "use an image with fewer volumes",
		}
	}
	return out, nil
}

// maxVolumes bounds the volumes of an image.
const maxVolumes = 16

// takeFromImage marks the folders that begin with what the image has there:
// /run and the home, which images prepare for their programs, and volumes.
func takeFromImage(list []sandbox.Tmpfs, volumes []string) {
	for i, t := range list {
		switch {
		case slices.Contains(volumes, t.Target):
			list[i].Image = sandbox.ImageVolume
		case t.Target == "/run", t.Target == sandbox.HomeDir:
			list[i].Image = sandbox.ImageContent
		}
	}
}

// givenTmpfs reads docker.tmpfs. A home that it does not name is added, with
// what is left of budget but at most a quarter of it, because HOME must be
// writable, unless it lies elsewhere. So is each volume of the image, with at
// most an eighth.
func givenTmpfs(entries []string, budget int64, volumes []string, home bool) ([]sandbox.Tmpfs, error) {
	var list []sandbox.Tmpfs
	left := budget
	for _, s := range entries {
		t, err := parseTmpfs(s)
		if err != nil {
			return nil, sandbox.Errorf(sandbox.CodeValidation, "build spec", "docker.tmpfs %q: %w", s, err)
		}
		left -= t.Size
		list = append(list, t)
	}
	has := func(target string) bool {
		return slices.ContainsFunc(list, func(t sandbox.Tmpfs) bool { return t.Target == target })
	}
	if home && !has(sandbox.HomeDir) {
		size := pages(min(left, budget/4))
		left -= size
		list = append(list, sandbox.Tmpfs{Target: sandbox.HomeDir, Size: size, Exec: true, Mode: homeMode, Owned: true})
	}
	volumes = slices.DeleteFunc(slices.Clone(volumes), has)
	for _, v := range volumes {
		list = append(list, volume(v, pages(min(left/int64(len(volumes)), budget/8))))
	}
	return list, nil
}

// pages rounds down to whole pages.
func pages(n int64) int64 { return n / pageSize * pageSize }
