//go:build linux

package probe

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func leakProbes() map[string]probe {
	return map[string]probe{
		"environment":    environment,
		"engine-socket":  engineSocket,
		"other-sockets":  otherSockets,
		"foreign-memory": sharedMemory,
		"hostname":       hostname,
	}
}

// environment prints the environment; what of it is the host's is judged
// outside, where the host's is known.
func environment([]string) verdict {
	return held(strings.Join(os.Environ(), "\x1f"))
}

// hostname compares with the host's name, args[0].
func hostname(args []string) verdict {
	name, err := os.Hostname()
	if err != nil {
		return skip(reason(err))
	}
	if len(args) == 1 && args[0] == name {
		return broke("the sandbox bears the name of the host")
	}
	return held("a name of its own")
}

// engineSocket connects to the control sockets of container engines.
func engineSocket([]string) verdict {
	var tries []try
	for _, dir := range []string{"/run", "/var/run"} {
		for _, name := range []string{
			"docker.sock", "docker/containerd/containerd.sock", "containerd/containerd.sock", "podman/podman.sock",
			"crio/crio.sock", "buildkit/buildkitd.sock", "dbus/system_bus_socket", "systemd/private", "snapd.socket", "lxd.socket",
		} {
			path := dir + "/" + name
			tries = append(tries, try{path, func() error { return connectUnix(path) }})
		}
	}
	return each(tries...)
}

func connectUnix(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

// otherSockets walks the whole tree for Unix sockets at which a process
// answers, except the guest's own. A socket mounted over a file is not seen in
// a listing, so mounts are asked too.
func otherSockets([]string) verdict {
	var found []string
	mounts, _ := mountPoints()
	for _, m := range mounts {
		if fi, err := os.Stat(m.target); err == nil && fi.Mode()&os.ModeSocket != 0 && connectUnix(m.target) == nil {
			found = append(found, m.target)
		}
	}
	seen := 0
	_ = filepath.WalkDir("/", func(path string, e fs.DirEntry, err error) error {
		if seen++; seen > 10*maxWalk {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		if e.IsDir() && (path == "/proc" || path == "/sys" || path == "/.sandbox") {
			return fs.SkipDir
		}
		if e.Type()&os.ModeSocket != 0 && connectUnix(path) == nil {
			found = append(found, path)
		}
		return nil
	})
	if len(found) > 0 {
		return broke("a program answers at ", strings.Join(found, ", "))
	}
	return held("no program answers at any socket file")
}

// sharedMemory looks for System V objects and message queues of others: a
// new sandbox has none.
func sharedMemory([]string) verdict {
	var seen []string
	for _, kind := range []string{"shm", "sem", "msg"} {
		text, err := os.ReadFile("/proc/sysvipc/" + kind)
		if err != nil {
			continue
		}
		if n := strings.Count(strings.TrimSpace(string(text)), "\n"); n > 0 {
			seen = append(seen, itoa(n)+" "+kind)
		}
	}
	for _, dir := range []string{"/dev/shm", "/dev/mqueue"} {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			seen = append(seen, itoa(len(entries))+" in "+dir)
		}
	}
	if len(seen) > 0 {
		return broke("objects of others: ", strings.Join(seen, ", "))
	}
	return held("no objects of others")
}
