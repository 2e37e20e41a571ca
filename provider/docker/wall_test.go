package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestInside examines the sandbox from inside.
func TestInside(t *testing.T) {
	t.Setenv("HOST_SECRET_OF_TEST", "leak-me")
	r := dockertest.New(t)
	sb, s := r.Open("inside")
	tests := []struct{ name, line, want string }{
		{"no capabilities", `grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | awk '{print $2}' | sort -u`, "0000000000000000"},
		{"no new privileges", `awk '/^NoNewPrivs/{print $2}' /proc/self/status`, "1"},
		{"seccomp filter", `awk '/^Seccomp:/{print $2}' /proc/self/status`, "2"},
		{"own uid", `id -u`, strconv.Itoa(s.UID)},
		{"own name", `id -un`, "sandbox"},
		{"root is read-only", `touch /x 2>/dev/null; echo $?`, "1"},
		{"usr is read-only", `touch /usr/x 2>/dev/null; echo $?`, "1"},
		{"etc is read-only", `touch /etc/x 2>/dev/null; echo $?`, "1"},
		{"only lo", `ls /sys/class/net`, "lo"},
		{"own host name is loopback", `python3 -c 'import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))'`, "sandbox 127.0.0.1"},
		{"IPv6 loopback", `python3 -c 'import socket; print(socket.create_server(("::1", 0), family=socket.AF_INET6).getsockname()[0])'`, "::1"},
		{"IPv6 on loopback alone", `awk '{print $6}' /proc/net/if_inet6`, "lo"},
		{"no route", `tail -n +2 /proc/net/route | wc -l`, "0"},
		{"tmp executes", `printf '#!/bin/sh\necho ran\n' > /tmp/p && chmod +x /tmp/p && /tmp/p`, "ran"},
		{"home is writable", `cd && touch x && pwd`, "/home/sandbox"},
		{"workspace is writable", `touch /workspace/x && ls /workspace`, "x"},
		{"pid 1 is the guest", `tr "\\0" " " < /proc/1/cmdline`, "sandbox-guest init --masked --nofile=4096 --mode=1777:/tmp --mode=0700:/home/sandbox --mode=1777:/var/tmp --mode=0755:/run"},
		{"pid 1 keeps its descriptors", `ls /proc/1/fd 2>/dev/null | wc -l`, "0"},
		{"pid 1 keeps its environment", `cat /proc/1/environ 2>/dev/null | wc -c`, "0"},
		{"no engine socket", `ls /var/run/docker.sock /run/docker.sock 2>/dev/null | wc -l`, "0"},
		{"nothing of the host's environment", `env | grep -c -e HOST_SECRET -e leak-me`, "0"},
		{"path is the image's", `echo $PATH`, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		{"kcore is masked", `head -c 1 /proc/kcore 2>/dev/null | wc -c`, "0"},
		{"proc sys is read-only", `(echo x > /proc/sys/kernel/core_pattern) 2>/dev/null; echo $?`, "2"},
		{"sys is read-only", `touch /sys/x 2>/dev/null; echo $?`, "1"},
		{"cgroup is read-only", `touch /sys/fs/cgroup/x /sys/fs/cgroup/*/x 2>/dev/null; echo $?`, "1"},
		{"guest binary is read-only", `touch /.sandbox/bin/sandbox-guest 2>/dev/null; echo $?`, "1"},
		{"socket folder is closed", `touch /.sandbox/run/x 2>/dev/null; echo $?`, "1"},
		{"socket cannot be unlinked", `rm -f /.sandbox/run/guest.sock 2>/dev/null; echo $?`, "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasPrefix(tt.name, "socket ") {
				testenv.Require(t, "root") // without it no folder is sealed
			}
			if got, _ := sh(t, sb, tt.line); got != tt.want {
				t.Errorf("%s printed %q, want %q", tt.line, got, tt.want)
			}
		})
	}
}

// TestSyscalls tries the system calls that the profile takes away.
func TestSyscalls(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	sb, _ := r.Open("syscalls")
	const try = `
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
args = [int(a, 0) for a in sys.argv[1:]]
r = libc.syscall(*args)
print("ok" if r >= 0 else ctypes.get_errno())
`
	must(t, os.WriteFile(filepath.Join(workspaceOf(r.Spec("syscalls")), "try.py"), []byte(try), 0o644))
	tests := []struct {
		name string
		nr   int
		args string
	}{
		{"vsock", unix.SYS_SOCKET, "40 1 0"},
		{"alg", unix.SYS_SOCKET, "38 5 0"},
		{"packet", unix.SYS_SOCKET, "17 3 0"},
		{"bluetooth", unix.SYS_SOCKET, "31 3 0"},
		{"io_uring", unix.SYS_IO_URING_SETUP, "1 0"},
		{"ptrace of the guest", unix.SYS_PTRACE, "16 1 0 0"},
		{"keyctl", unix.SYS_KEYCTL, "0 -3 0"},
		{"add_key", unix.SYS_ADD_KEY, "0 0 0 0 0"},
		{"mount", unix.SYS_MOUNT, "0 0 0 0 0"},
		{"fsopen", unix.SYS_FSOPEN, "0 0"},
		{"open_tree", unix.SYS_OPEN_TREE, "-100 0 0"},
		{"unshare user", unix.SYS_UNSHARE, "0x10000000"},
		{"clone user", unix.SYS_CLONE, "0x10000011 0 0 0 0"},
		{"setns", unix.SYS_SETNS, "0 0"},
		{"bpf", unix.SYS_BPF, "0 0 0"},
		{"perf", unix.SYS_PERF_EVENT_OPEN, "0 0 -1 -1 0"},
		{"userfaultfd", unix.SYS_USERFAULTFD, "1"},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, "0 0 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := sh(t, sb, "python3 try.py "+strconv.Itoa(tt.nr)+" "+tt.args)
			if got != "1" && got != "38" { // EPERM, or ENOSYS
				t.Errorf("errno %s, want EPERM or ENOSYS", got)
			}
		})
	}
	for name, line := range map[string]string{
		"unix socket":     "41 1 1 0",
		"internet socket": "41 2 1 0",
		"netlink":         "41 16 3 0",
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := sh(t, sb, "python3 try.py "+line); got != "ok" {
				t.Errorf("got %s, want ok", got)
			}
		})
	}
}

// TestTmpfsOverFolders holds that a folder in memory has the mode of the
// settings and belongs to the sandbox's user where the image has that folder with
// another mode too, also after the container was stopped and started.
func TestTmpfsOverFolders(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("tmpfs")
	s.Tmpfs = append(s.Tmpfs,
		sandbox.Tmpfs{Target: "/srv", Size: 1 << 20, Mode: 0o1777},
		sandbox.Tmpfs{Target: "/opt", Size: 1 << 20, Mode: 0o700, Exec: true},
		sandbox.Tmpfs{Target: "/var/lib", Size: 1 << 20, Mode: 0o755},
		sandbox.Tmpfs{Target: "/not/in/the/image", Size: 1 << 20, Mode: 0o750},
	)
	const look = `stat -c '%n %a %u' /srv /opt /var/lib /not/in/the/image /tmp /run $HOME; for d in /srv /opt /var/lib /not/in/the/image; do touch $d/x; done; cp /bin/true /opt/y && /opt/y`
	me := strconv.Itoa(s.UID)
	want := strings.ReplaceAll("/srv 1777 U\n/opt 700 U\n/var/lib 755 U\n/not/in/the/image 750 U\n/tmp 1777 U\n/run 755 U\n/home/sandbox 700 U", "U", me)
	sb := r.Create(s)
	if out, code := sh(t, sb, look); out != want || code != 0 {
		t.Errorf("printed %q, exit %d, want %q", out, code, want)
	}
	must(t, r.Engine.Kill(context.Background(), s.Name))
	if out, code := sh(t, r.Reopen(s), look); out != want || code != 0 {
		t.Errorf("after a restart printed %q, exit %d, want %q", out, code, want)
	}
}

// TestTracing holds that a debugger works on its own processes, and reaches
// neither the guest nor the processes of another command or shell.
func TestTracing(t *testing.T) {
	r := dockertest.New(t)
	sb, s := r.Open("tracing")
	must(t, os.WriteFile(filepath.Join(workspaceOf(s), "trace.py"), []byte(testenv.Tracing), 0o644))
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	other, err := sb.Start(ctx, sandbox.Command{Args: []string{"sleep", "7654"}})
	must(t, err)
	shell, err := sb.OpenShell(ctx, sandbox.ShellOptions{})
	must(t, err)
	defer shell.Close()
	const all = `others=; for p in /proc/[0-9]*; do read -r name < $p/comm; case $name in sleep|sandbox-guest|bash) others="$others ${p#/proc/}";; esac; done; `
	if out, _ := sh(t, sb, all+`set -- $others; test $# -ge 4 || echo few: $*; python3 trace.py $others`); out != "child\nmemory\naddresses" {
		t.Errorf("could trace %q", out)
	}
	must(t, other.Signal(ctx, "KILL"))
}

// TestInspect examines the sandbox through the engine.
func TestInspect(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	if r.Posture.Podman { // what it says is compared at each create; see package container
		testenv.Lack(t, "dockerd", "Podman describes containers in another form")
	}
	s := r.Spec("inspect")
	s.Env["API_KEY"] = "s3cret-in-env"
	r.Create(s)
	out, err := exec.Command("docker", "inspect", s.Name).Output()
	must(t, err)
	if strings.Contains(string(out), "s3cret-in-env") {
		t.Error("inspect shows a value of the environment")
	}
	var got []struct {
		Config     struct{ User string }
		HostConfig struct {
			ReadonlyRootfs, Privileged, PublishAllPorts bool
			CapAdd, CapDrop, SecurityOpt, Binds         []string
			NetworkMode, PidMode, IpcMode, UsernsMode   string
			LogConfig                                   struct{ Type string }
			Memory, MemorySwap, PidsLimit, NanoCpus     int64
			MaskedPaths                                 []string
			Tmpfs                                       map[string]string
		}
	}
	must(t, json.Unmarshal(out, &got))
	h := got[0].HostConfig
	check := func(what string, ok bool) {
		t.Helper()
		if !ok {
			t.Errorf("%s is wrong in %+v", what, h)
		}
	}
	check("read-only root", h.ReadonlyRootfs)
	check("privileged", !h.Privileged)
	check("capabilities", len(h.CapAdd) == 0 && len(h.CapDrop) == 1 && h.CapDrop[0] == "ALL")
	check("security options", len(h.SecurityOpt) == 2 && h.SecurityOpt[0] == "no-new-privileges:true" && strings.HasPrefix(h.SecurityOpt[1], "seccomp={"))
	check("network", h.NetworkMode == "none")
	check("namespaces", h.PidMode == "" && h.IpcMode == "private" && h.UsernsMode == "")
	check("log", h.LogConfig.Type == "none")
	check("limits", h.Memory == s.Resources.Memory && h.MemorySwap == s.Resources.Memory && h.PidsLimit == s.Resources.PIDs && h.NanoCpus == s.Resources.NanoCPUs)
	check("binds", len(h.Binds) == 0)
	check("masked paths", len(h.MaskedPaths) > 5)
	for target, o := range h.Tmpfs {
		check("tmpfs "+target, strings.Contains(o, "size="))
	}
	if got[0].Config.User != strconv.Itoa(s.UID)+":"+strconv.Itoa(s.GID) {
		t.Errorf("user %s", got[0].Config.User)
	}
}

// TestDestroyers runs what fills, floods and kills, and holds that this
// sandbox, its neighbour and the host's disk are afterwards as they were.
func TestDestroyers(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	sb, s := r.Open("victim")
	neighbour, _ := r.Open("neighbour")
	tests := map[string]string{
		"log of pid 1":    `dd if=/dev/zero of=/proc/1/fd/1 bs=1M count=1024 2>&1`,
		"log of pid 1, 2": `dd if=/dev/zero of=/proc/1/fd/2 bs=1M count=1024 2>&1`,
		"fill tmp":        `dd if=/dev/zero of=/tmp/fill bs=1M count=4096 2>&1; rm -f /tmp/fill`,
		"fill home":       `dd if=/dev/zero of=$HOME/fill bs=1M count=4096 2>&1; rm -f $HOME/fill`,
		"fill shm":        `dd if=/dev/zero of=/dev/shm/fill bs=1M count=4096 2>&1; rm -f /dev/shm/fill`,
		"kill all":        `kill -9 -1`,
		"kill pid 1":      `kill -9 1; kill -TERM 1; kill -INT 1; kill -STOP 1`,
		"fork bomb":       `b() { b | b & }; b; sleep 1`,
		"4 GiB":           `python3 -c 'x = bytearray(4 << 30); print(len(x))'`,
		"disk filler":     `for d in / /usr /var /etc /opt /srv /mnt /.sandbox/run /.sandbox/bin /dev /proc /sys; do dd if=/dev/zero of=$d/fill bs=1M count=512; done 2>&1; true`,
		"inode filler":    `i=0; while [ $i -lt 20000 ]; do : > /tmp/f$i || break; i=$((i+1)); done 2>/dev/null; rm -f /tmp/f*`,
		"memory in tmpfs": `for d in /tmp $HOME /var/tmp /run /dev/shm; do dd if=/dev/zero of=$d/fill bs=1M; done 2>&1; rm -f /tmp/fill $HOME/fill /var/tmp/fill /run/fill /dev/shm/fill`,
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			before, own := freeBytes(t), ownBytes(t, s)
			ctx, done := context.WithTimeout(context.Background(), 60*time.Second)
			defer done()
			if p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}}); err == nil {
				p.Wait()
			}
			if grown := ownBytes(t, s) - own; grown > 1<<20 {
				t.Errorf("the sandbox has grown by %d MiB on the host's disk", grown>>20)
			}
			// Whatever else runs on the host may write meanwhile, and removes it.
			soon(t, patience, "the host has its disk again, but for 512 MiB", func() bool { return before-freeBytes(t) <= 512<<20 })
			for who, w := range map[string]sandbox.Sandbox{"victim": sb, "neighbour": neighbour} {
				if out, code := sh(t, w, "echo alive; ls -A /tmp | head -3"); out != "alive" || code != 0 {
					t.Errorf("%s afterwards: %q, %d", who, out, code)
				}
			}
			out, _ := sh(t, sb, `exec ps -eo pid=,ppid=,args=`) // alone, so that it sees no other of ours
			for line := range strings.Lines(out) {
				if !strings.Contains(line, "sandbox-guest") && !strings.Contains(line, "ps -eo") {
					t.Errorf("a process is left: %s", line)
				}
			}
			info, err := r.P.Inspect(context.Background(), s.Name)
			if err != nil || info.Status != sandbox.StatusRunning || info.StartedAt != sb.Info().StartedAt {
				t.Errorf("the container was restarted or is not running: %+v, %v", info, err)
			}
		})
	}
}

// TestForgedSocket lets code inside try to take the guest's place at the socket.
func TestForgedSocket(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("forge")
	sb := r.Create(s)
	sock := filepath.Join(socketOf(s), "guest.sock")
	testenv.Require(t, "root") // without it no folder is sealed
	// The seal holds against code inside; play the part of code that got in
	// before it was closed.
	must(t, os.Remove(sock))
	l, err := net.Listen("unix", sock)
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	other := r.Reopen(s)
	if out, _ := sh(t, other, "echo real"); out != "real" {
		t.Errorf("got %q", out)
	}
	if out, _ := sh(t, sb, "echo real"); out != "real" {
		t.Errorf("the session from before says %q", out)
	}
}

func freeBytes(t testing.TB) int64 {
	t.Helper()
	unix.Sync()
	var st unix.Statfs_t
	must(t, unix.Statfs("/var/lib/docker", &st))
	return int64(st.Bavail) * st.Bsize
}

// ownBytes is what the host's disk holds because of a sandbox: in its root,
// in the engine's folder for it, where logs are, and in its mounts.
func ownBytes(t testing.TB, s sandbox.Spec) int64 {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "--size", "--format", "{{.SizeRw}} {{.HostnamePath}}", s.Name).Output()
	must(t, err)
	var sum int64
	var conf string
	if _, err := fmt.Sscan(string(out), &sum, &conf); err != nil || !filepath.IsAbs(conf) {
		t.Fatalf("the engine says %q, %v", out, err)
	}
	places := []string{filepath.Dir(conf)}
	for _, m := range s.Mounts {
		places = append(places, m.Source)
	}
	for _, place := range places {
		must(t, filepath.WalkDir(place, func(p string, _ fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil {
				err = unix.Lstat(p, &st)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went meanwhile
			}
			if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
				return nil // an engine without root gives folders to users of its own
			}
			sum += st.Blocks * 512
			return err
		}))
	}
	return sum
}

func workspaceOf(s sandbox.Spec) string { return sourceOf(s, sandbox.RoleWorkspace) }
func socketOf(s sandbox.Spec) string    { return sourceOf(s, sandbox.RoleSocket) }

func sourceOf(s sandbox.Spec, role sandbox.Role) string {
	for _, m := range s.Mounts {
		if m.Role == role {
			return m.Source
		}
	}
	return ""
}
