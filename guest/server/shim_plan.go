//go:build linux

package server

import (
	"strings"
	"syscall"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// defaultPath is searched when the environment of a command has no PATH.
const shimDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// encode lays s over base and returns the request for it, as a shim wants
// it: complete, bounded, and with nothing in it that is not the guest's own
// computation but bytes of strings. at is the address the request will have;
// hard tells the hard limit of a resource. The returned report is the
// failure, if any.
func encode(s, base wire.Start, at uintptr, hard func(resource int) uint64) ([]byte, *shimReport) {
	if len(s.Args) == 0 || s.Args[0] == "" || holdsNUL(s) {
		return nil, failed(stepRequest, unix.EINVAL)
	}
	limits, failure := limits(s, base, hard)
	if failure != nil {
		return nil, failure
	}
	if s.Flags&wire.FlagBare != 0 {
		base.Env = nil
	}
	env := overlay(base.Env, s.Env)
	paths, failure := candidates(s.Args[0], env)
	if failure != nil {
		return nil, failure
	}
	b := builder{at: at, bytes: make([]byte, unsafe.Sizeof(request{}), shimRoom(s.Args, env, paths)+len(s.Dir))}
	var r request
	r.argv, r.envv = b.list(s.Args), b.list(env)
	r.candidates = b.list(paths) - at
	if s.Dir != "" {
		r.dir = b.text(s.Dir)
	}
	if s.Flags&wire.FlagTTY != 0 {
		r.tty = 1
	}
	r.nlimits = uintptr(copy(r.limits[:], limits))
	r.size = uintptr(len(b.bytes))
	if r.size > requestSize {
		return nil, failed(stepExec, unix.E2BIG)
	}
	copy(b.bytes, unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
	return b.bytes, nil
}

func failed(step uint16, errno syscall.Errno) *shimReport {
	return &shimReport{Kind: shimFailed, Step: step, Errno: uint32(errno)}
}

func holdsNUL(s wire.Start) bool {
	for _, list := range [][]string{s.Args, s.Env, {s.Dir}} {
		for _, text := range list {
			if strings.IndexByte(text, 0) >= 0 {
				return true
			}
		}
	}
	return false
}

// room is enough for everything that a request holds.
func shimRoom(lists ...[]string) int {
	n := int(unsafe.Sizeof(request{})) + 64
	for _, l := range lists {
		n += 8
		for _, s := range l {
			n += len(s) + 1 + 8
		}
	}
	return n
}

// A builder appends to a request and tells the addresses of what it adds.
type builder struct {
	at    uintptr // address of the first byte
	bytes []byte
}

// text appends a C string.
func (b *builder) text(s string) uintptr {
	at := b.at + uintptr(len(b.bytes))
	b.bytes = append(append(b.bytes, s...), 0)
	return at
}

// list appends C strings, and then their addresses with a 0 at the end.
func (b *builder) list(l []string) uintptr {
	const word = int(unsafe.Sizeof(uintptr(0)))
	first := b.at + uintptr(len(b.bytes))
	for _, s := range l {
		b.text(s)
	}
	for len(b.bytes)%word != 0 {
		b.bytes = append(b.bytes, 0)
	}
	start := len(b.bytes)
	b.bytes = append(b.bytes, make([]byte, word*(len(l)+1))...)
	words := unsafe.Slice((*uintptr)(unsafe.Pointer(&b.bytes[start])), len(l)+1)
	for i, s := range l {
		words[i] = first
		first += uintptr(len(s) + 1)
	}
	return b.at + uintptr(start)
}

// limits returns what is to be set: the soft limit of open files that
// commands start with, and then the command's own. A hard limit that is
// below the wanted one stays, and becomes the soft one too.
func limits(s, base wire.Start, hard func(resource int) uint64) ([]rlimit, *shimReport) {
	list := []rlimit{softOpenFiles(base)}
	for _, l := range s.Limits {
		r, ok := limit(l)
		if !ok || len(list) == maxLimits {
			return nil, failed(stepLimits, unix.EINVAL)
		}
		list = append(list, r)
	}
	for i := range list {
		v := &list[i].value
		v.Max = min(v.Max, hard(int(list[i].resource)))
		v.Cur = min(v.Cur, v.Max)
	}
	return list, nil
}

// softOpenFiles is the soft limit of open files that commands start with.
// The Go runtime has raised ours and does not tell what it was, so either
// base says it, or it is the hard limit.
func softOpenFiles(base wire.Start) rlimit {
	r := rlimit{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}}
	for _, l := range base.Limits {
		if l.Kind == wire.LimitOpenFiles {
			r.value.Cur = l.Value
		}
	}
	return r
}

// limit translates a limit of the protocol to one of the kernel. For
// processor time the soft limit sends SIGXCPU and the hard one, a second
// later, SIGKILL.
func limit(l wire.Limit) (rlimit, bool) {
	r := rlimit{value: unix.Rlimit{Cur: l.Value, Max: l.Value}}
	switch l.Kind {
	case wire.LimitCPU:
		r.resource, r.value.Max = unix.RLIMIT_CPU, l.Value+1
	case wire.LimitFileSize:
		r.resource = unix.RLIMIT_FSIZE
	case wire.LimitOpenFiles:
		r.resource = unix.RLIMIT_NOFILE
	case wire.LimitAddressSpace:
		r.resource = unix.RLIMIT_AS
	case wire.LimitData:
		r.resource = unix.RLIMIT_DATA
	case wire.LimitCore:
		r.resource = unix.RLIMIT_CORE
	default:
		return r, false
	}
	return r, true
}

// overlay lays the entries of over on base: one entry a key, the last wins.
func overlay(base, over []string) []string {
	index := make(map[string]int, len(base)+len(over))
	out := make([]string, 0, len(base)+len(over)+1)
	for _, list := range [2][]string{base, over} {
		for _, entry := range list {
			key, _, ok := strings.Cut(entry, "=")
			if !ok {
				continue
			}
			if i, ok := index[key]; ok {
				out[i] = entry
				continue
			}
			index[key] = len(out)
			out = append(out, entry)
		}
	}
	return out
}

// maxName is the longest name that a folder can hold, in bytes.
const maxName = 255

// candidates returns where the program name may be found, as execvp(3)
// looks: a name with a slash is a path, an empty element of PATH is the
// working directory. What would not fit into a request is refused before it
// is made: a long name in a long PATH is the product of both.
func candidates(name string, env []string) ([]string, *shimReport) {
	if strings.Contains(name, "/") {
		return []string{name}, nil
	}
	path := shimDefaultPath
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = v
		}
	}
	folders := strings.Count(path, ":") + 1
	switch {
	case len(name) > maxName:
		return nil, failed(stepExec, unix.ENAMETOOLONG)
	case shimRoom(nil)+len(path)+folders*(len("./")+len(name)+9) > requestSize:
		return nil, failed(stepExec, unix.E2BIG)
	}
	out := make([]string, 0, folders)
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		out = append(out, strings.TrimSuffix(dir, "/")+"/"+name)
	}
	return out, nil
}
