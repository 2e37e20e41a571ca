package local

import (
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// limits turns the ulimits of a Spec into what the kernel takes.
func limits(list []sandbox.Ulimit) ([]launch.Limit, error) {
	numbers := map[string]int{
		"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
		"locks": unix.RLIMIT_LOCKS, "memlock": unix.RLIMIT_MEMLOCK, "msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE,
		"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO,
		"rttime": unix.RLIMIT_RTTIME, "sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
	}
	var out []launch.Limit
	for _, u := range list {
		n, ok := numbers[u.Name]
		if !ok {
			return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: "docker.ulimits." + u.Name, Message: "there is no such limit"}
		}
		l := launch.Limit{Resource: uint32(n), Soft: boundOf(u.Soft), Hard: boundOf(u.Hard)}
		if n == unix.RLIMIT_CORE {
			l = noCore(l)
		}
		out = append(out, l)
	}
	return out, nil
}

// noCore makes one byte of a core that is to have none, for which no file is
// written either: it would be too small. Where the host hands cores to a program
// (core_pattern with a pipe, core(5)), which runs as root and outside of every
// instance, the kernel passes over every limit but this one: it starts the program at
// 0, and does not at exactly 1 (fs/coredump.c). The filter of commands keeps code
// inside from lowering its own limit to 0.
func noCore(l launch.Limit) launch.Limit {
	if l.Soft == 0 {
		l.Soft, l.Hard = 1, max(l.Hard, 1)
	}
	return l
}

// boundOf reads a value of settings, where a negative one is no bound.
func boundOf(n int64) uint64 {
	if n < 0 {
		return unix.RLIM_INFINITY
	}
	return uint64(n)
}
