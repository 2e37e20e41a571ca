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
		out = append(out, launch.Limit{Resource: uint32(n), Soft: boundOf(u.Soft), Hard: boundOf(u.Hard)})
	}
	return out, nil
}

// boundOf reads a value of settings, where a negative one is no bound.
func boundOf(n int64) uint64 {
	if n < 0 {
		return unix.RLIM_INFINITY
	}
	return uint64(n)
}
