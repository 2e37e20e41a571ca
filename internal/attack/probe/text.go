//go:build linux

package probe

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// mib writes a number of bytes for people.
func mib(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatInt(n>>20, 10) + " MiB"
}

// statusField returns a field of /proc/PID/status, or "" when there is none.
func statusField(pid, field string) string {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// A mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	target   string
	kind     string // file system type
	readOnly bool
}

// mountPoints lists what is mounted in the sandbox.
func mountPoints() ([]mountPoint, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []mountPoint
	for line := range strings.SplitSeq(string(text), "\n") {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 6 || len(g) < 1 {
			continue
		}
		out = append(out, mountPoint{
			target:   unescapeMount(f[4]),
			kind:     g[0],
			readOnly: strings.HasPrefix(f[5]+",", "ro,"),
		})
	}
	return out, nil
}

// unescapeMount undoes the octal escapes of proc_pid_mountinfo(5).
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// openable reports whether path can be opened with flags.
func openable(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return nil
}

// creatable reports whether a new file can be made in dir. It is removed again.
func creatable(dir string) error {
	path := dir + "/.escape-" + itoa(os.Getpid())
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	unix.Unlink(path)
	return nil
}

// writeOpen is a try to open path for writing.
func writeOpen(path string) try {
	return try{path, func() error { return openable(path, unix.O_WRONLY) }}
}

// createIn is a try to make a file in dir.
func createIn(dir string) try {
	return try{"new file in " + dir, func() error { return creatable(dir) }}
}

// scratch returns a folder in which files can be made, or "".
func scratch() string {
	for _, dir := range []string{"/tmp", "/workspace", "/var/tmp", "/dev/shm"} {
		if creatable(dir) == nil {
			return dir
		}
	}
	return ""
}
