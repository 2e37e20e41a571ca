package auth

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// peerVar names the socket to which a process of this binary connects instead of
// running tests; with leaveVar it does not wait for the answer.
const peerVar, leaveVar = "CALLER_TEST_PEER", "CALLER_TEST_LEAVE"

func TestMain(m *testing.M) {
	if path := os.Getenv(peerVar); path != "" {
		if err := connect(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

func connect(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	if os.Getenv(leaveVar) != "" {
		return nil
	}
	_, err = io.Copy(os.Stdout, c)
	return err
}

func peerProcess(path string, flags uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), peerVar+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags&syscall.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

func identified(t *testing.T) http.Handler {
	store := openStore(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Identify(store, r)
		fmt.Fprintf(w, "role=%s error=%v", c.Role, err)
	})
}

// TestPeerInAnotherNamespace holds that a process of our own user is an
// administrator at the socket only if it runs in the namespaces of the server: a
// sandbox that has obtained the socket is refused.
func TestPeerInAnotherNamespace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(identified(t))
	srv.Listener.Close()
	srv.Listener, srv.Config.ConnContext = l, ConnContext
	srv.Start()
	t.Cleanup(srv.Close)
	var user uintptr
	if os.Getuid() != 0 { // only root can make the other processes
		user = syscall.CLONE_NEWUSER
	}
	for _, tt := range []struct {
		name  string
		flags uintptr
		admin bool
	}{
		{"ours", 0, true},
		{"network alone", user | syscall.CLONE_NEWNET, user == 0},
		{"pid", user | syscall.CLONE_NEWPID, false},
		{"mount", user | syscall.CLONE_NEWNS, false},
		{"user", syscall.CLONE_NEWUSER, false},
		{"all", syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := peerProcess(path, tt.flags).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if admin := strings.Contains(string(out), "role=admin error=<nil>"); admin != tt.admin {
				t.Errorf("admin is %v, want %v: %s", admin, tt.admin, out)
			}
			if !tt.admin && !strings.Contains(string(out), "namespace") {
				t.Errorf("the refusal does not name the reason: %s", out)
			}
		})
	}
}

// TestPeerThatHasEnded holds that the number of a process that has ended is not
// used: it may belong to another process by then.
func TestPeerThatHasEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := peerProcess(path, 0)
	cmd.Env = append(cmd.Env, leaveVar+"=1")
	if out, err := cmd.CombinedOutput(); err != nil { // it waits to be accepted
		t.Fatalf("%v: %s", err, out)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p, ok := peerOf(ConnContext(t.Context(), c)); !ok || p.trusted(os.Getuid()) {
		t.Errorf("%+v is trusted", p)
	}
	l.Close()
}

// TestNeighbour holds the result for a process file system that cannot be read,
// and for what it shows of root to another user.
func TestNeighbour(t *testing.T) {
	if !neighbour("/proc", os.Getpid(), os.Getuid()) {
		t.Error("this process does not live where it lives")
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if neighbour("/proc", pid, 0) {
			t.Errorf("process %d lives here", pid)
		}
	}
	if neighbour(t.TempDir(), os.Getpid(), 0) {
		t.Error("without a process file system everybody lives here")
	}
	dir := t.TempDir()
	at := func(name, status, users string) string {
		path := filepath.Join(dir, name)
		for file, text := range map[string]string{"status": status, "uid_map": users} {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	ours := at("self", "Name:\tx\nNSpid:\t7\n", "0 0 4294967295\n")
	for name, want := range map[string]bool{
		at("same", "Name:\ty\nNSpid:\t8\n", "0 0 4294967295\n"):          true,
		at("container", "Name:\ty\nNSpid:\t8\t1\n", "0 0 4294967295\n"):  false,
		at("users", "Name:\ty\nNSpid:\t8\n", "0 1000 1\n"):               false,
		at("forged", "Name:\tNSpid: 8\nUmask:\t0\n", "0 0 4294967295\n"): false,
		filepath.Join(dir, "gone"):                                       false,
	} {
		if got := rootBeside(name, ours); got != want {
			t.Errorf("%s: %v", filepath.Base(name), got)
		}
	}
}

// Identifying the peer must cost a connection little.
func BenchmarkLook(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if p := look(s.(*net.UnixConn)); p.alien {
			b.Fatal("alien")
		}
	}
}
