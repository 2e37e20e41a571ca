//go:build linux

package manager_test

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestEgressBelongsToItsSandbox holds that a way out is its sandbox's alone:
// there is no port of the host, no socket and no file that would lead to it,
// and neither another sandbox nor the host reaches its port.
func TestEgressBelongsToItsSandbox(t *testing.T) {
	onForts(t, func(f *fort) {
		ports := listening(f.t, "self")
		paths := f.openPaths()
		p := f.poll()
		if now := listening(f.t, "self"); !slices.Equal(now, ports) {
			f.t.Errorf("the host listens at %q, and did at %q", now, ports)
		}
		if now := f.openPaths(); !slices.Equal(now, paths) {
			f.t.Errorf("others can reach %q, and could %q", now, paths)
		}
		inside := f.inside("cat /proc/net/tcp /proc/net/tcp6 proxy")
		port := portOfProxy(f.t, inside)
		f.atLoopbackAlone(inside, port)
		words := strings.Fields(inside)
		f.hostCannot(port, words[len(words)-1])
		p.next(1, "200")
		f.who.Session = "another"
		f.reloadNothing()
		if out := f.inside("curl -sS --max-time 20 -x http://127.0.0.1:" + port + " " + f.net.URL("http", testenv.Files, "/greeting.txt") + " 2>&1; true"); !strings.Contains(out, "onnect") || strings.Contains(out, testenv.Content) {
			f.t.Errorf("another sandbox at the port: %s", out)
		}
	})
}

// reloadNothing puts settings in force that let nothing be reached. The proxy of
// a sandbox goes on listening, and answers 403 from some moment on.
func (f *fort) reloadNothing() { f.reload() }

// inside runs a line in the sandbox and returns what it says.
func (f *fort) inside(line string) string {
	f.t.Helper()
	r, err := f.try(nil, line)
	must(f.t, err)
	if r.ExitCode != 0 {
		f.t.Fatalf("status %d: %s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

// script runs a script that no rule for lines has a say about.
func (f *fort) script(text string) string {
	f.t.Helper()
	r, err := f.try(nil, "", func(r *manager.Request) {
		r.Command.Args, r.Command.Stdin = []string{"bash", "-s"}, strings.NewReader(text)
	})
	must(f.t, err)
	if r.ExitCode != 0 {
		f.t.Fatalf("status %d: %s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

// portOfProxy returns the port in the URL of a proxy in text.
func portOfProxy(t *testing.T, text string) string {
	t.Helper()
	i := strings.LastIndex(text, "@127.0.0.1:")
	if i < 0 {
		t.Fatalf("there is no proxy in %q", text)
	}
	return strings.TrimSpace(text[i+len("@127.0.0.1:"):])
}

// atLoopbackAlone holds that the kernel's list of sockets inside has the port
// listening at 127.0.0.1 and at no other address.
func (f *fort) atLoopbackAlone(list, port string) {
	f.t.Helper()
	hex := hexPort(f.t, port)
	var at []string
	for line := range strings.Lines(list) {
		if w := strings.Fields(line); len(w) > 3 && w[3] == "0A" && strings.HasSuffix(w[1], ":"+hex) {
			at = append(at, w[1])
		}
	}
	if !slices.Equal(at, []string{"0100007F:" + hex}) {
		f.t.Errorf("the proxy listens at %q", at)
	}
}

// hostCannot holds that neither root nor an ordinary user of the host has the
// way out at the port, even with the credentials of a command that runs. Another
// program of the host may listen at a port of that number: it is no way out.
func (f *fort) hostCannot(port, proxy string) {
	f.t.Helper()
	for _, at := range []string{"127.0.0.1:" + port, "[::1]:" + port, "0.0.0.0:" + port} {
		c, err := net.DialTimeout("tcp", at, 10*time.Second)
		if err != nil {
			continue
		}
		c.Close()
		if own := listening(f.t, "self"); slices.ContainsFunc(own, func(l string) bool { return strings.HasSuffix(l, ":"+hexPort(f.t, port)) }) {
			f.t.Errorf("the host connects to %s, where we listen: %q", at, own)
		}
	}
	testenv.Require(f.t, "root")
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-sS", "--max-time", "20",
		"-x", proxy, f.net.URL("http", testenv.Files, "/greeting.txt"))
	if out, _ := cmd.CombinedOutput(); strings.Contains(string(out), testenv.Content) {
		f.t.Errorf("an ordinary user of the host: %s", out)
	}
}

// hexPort is a port as the kernel's lists of sockets have it.
func hexPort(t *testing.T, port string) string {
	t.Helper()
	n, err := strconv.Atoi(port)
	must(t, err)
	return strings.ToUpper(strconv.FormatInt(int64(n)|1<<16, 16))[1:]
}

// listening returns the addresses at which this process listens in the
// network of a process.
func listening(t *testing.T, process string) (out []string) {
	t.Helper()
	own := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, e := range fds {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6", "raw"} {
		b, err := os.ReadFile("/proc/" + process + "/net/" + name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			w := strings.Fields(line)
			if len(w) < 10 || !own[w[9]] || strings.HasPrefix(name, "tcp") && w[3] != "0A" {
				continue
			}
			out = append(out, name+" "+w[1])
		}
	}
	slices.Sort(out)
	return out
}

// openPaths returns what users other than ours could open below the state
// folder, by modes and by trying, and the sockets of the kernel's list.
func (f *fort) openPaths() (out []string) {
	f.t.Helper()
	root := f.state.Path()
	var st unix.Stat_t
	must(f.t, unix.Stat(root, &st))
	if st.Mode&0o077 == 0 || st.Mode&0o077 == 0o011 {
		err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls", root).Run()
		if err == nil {
			f.t.Error("an ordinary user can list the state folder")
		}
	}
	for _, dir := range []string{f.state.Egress(), f.state.Evidence(), f.state.Violations()} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 && !strings.Contains(path, "/trust") {
				out = append(out, path+" "+info.Mode().String())
			}
			return nil
		})
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			out = append(out, path)
		}
		return nil
	})
	return append(out, unixSockets(f.t)...)
}

// unixSockets returns the sockets with a name at which this process listens.
func unixSockets(t *testing.T) (out []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	own := map[string]bool{}
	for _, e := range fds {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		}
	}
	b, err := os.ReadFile("/proc/self/net/unix")
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if w := strings.Fields(line); len(w) > 7 && own[w[6]] {
			out = append(out, w[7])
		}
	}
	slices.Sort(out)
	return out
}

// TestOthersCredentialsOpenNothing holds that a command with the credentials
// of another one is taken for that one, and may do no more.
func TestOthersCredentialsOpenNothing(t *testing.T) {
	onForts(t, func(f *fort) {
		p := f.poll()
		proxy := f.inside("cat proxy")
		for _, x := range []string{strings.TrimSpace(proxy), "http://127.0.0.1:" + portOfProxy(f.t, proxy), "http://nobody:wrong@127.0.0.1:" + portOfProxy(f.t, proxy)} {
			out := f.inside("curl -s -o /dev/null -w '%{http_code} ' -x '" + x + "' " + f.net.URL("http", testenv.Files, "/greeting.txt") +
				"; curl -s -o /dev/null -w '%{http_code}' -x '" + x + "' " + f.net.URL("http", testenv.Other, "/greeting.txt"))
			if out != "200 403" {
				f.t.Errorf("with the proxy %s: %s", x, out)
			}
		}
		if n := f.net.Hits(testenv.Other); n != 0 {
			f.t.Errorf("%d requests came through", n)
		}
		p.next(1, "200")
	})
}
