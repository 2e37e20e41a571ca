//go:build linux

package stage

import (
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// defaultPath is searched when the environment of a command has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A plan is a command made ready for the code between fork and exec, which
// must not allocate: every string is a C string already.
type plan struct {
	candidates []*byte // the program's possible paths, tried in order
	argv, envv []*byte
	dir        *byte // nil: stay
	limits     []rlimit
	fds        [3]int
	tty        bool
	landlock   int // rule set, or -1
}

type rlimit struct {
	resource int
	value    unix.Rlimit
}

// newPlan prepares s, which is laid over base. The returned report is the failure, if any.
func newPlan(s, base wire.Start, fds [3]int, landlock int) (*plan, *Report) {
	invalid := &Report{Kind: Failed, Step: StepRequest, Errno: uint32(unix.EINVAL)}
	if len(s.Args) == 0 || s.Args[0] == "" {
		return nil, invalid
	}
	env := overlay(base.Env, s.Env)
	p := &plan{fds: fds, tty: s.Flags&wire.FlagTTY != 0, landlock: landlock}
	var err error
	if p.argv, err = syscall.SlicePtrFromStrings(s.Args); err != nil {
		return nil, invalid
	}
	if p.envv, err = syscall.SlicePtrFromStrings(env); err != nil {
		return nil, invalid
	}
	if p.candidates, err = syscall.SlicePtrFromStrings(candidates(s.Args[0], env)); err != nil {
		return nil, invalid
	}
	p.candidates = p.candidates[:len(p.candidates)-1]
	if s.Dir != "" {
		if p.dir, err = syscall.BytePtrFromString(s.Dir); err != nil {
			return nil, invalid
		}
	}
	p.limits = append(p.limits, softOpenFiles(base))
	for _, l := range s.Limits {
		r, ok := limit(l)
		if !ok {
			return nil, &Report{Kind: Failed, Step: StepLimits, Errno: uint32(unix.EINVAL)}
		}
		p.limits = append(p.limits, r)
	}
	return p, nil
}

// softOpenFiles is the soft limit of open files that commands start with.
// The Go runtime has raised ours and does not tell what it was, so either
// base says it, or it is the hard limit, which is left as it is (confine
// cuts what is above it).
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

// candidates returns where the program name may be found, as execvp(3)
// looks: a name with a slash is a path, an empty element of PATH is the
// working directory.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	path := defaultPath
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = v
		}
	}
	var out []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		out = append(out, strings.TrimSuffix(dir, "/")+"/"+name)
	}
	return out
}
