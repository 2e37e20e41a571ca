package workspace

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

func sftpMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sftpWantCode(t *testing.T, what string, err error, code sandbox.Code) {
	t.Helper()
	if sandbox.CodeOf(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// A server is a real sshd on loopback, of an ordinary user, that gives out
// files and nothing else.
type server struct {
	host   Host
	folder string // of what may be taken
	dir    string // of its keys
}

// account is the user that the server runs as: one with an account, which is
// not root, since root's sshd wants folders of the system.
func account(t *testing.T) *user.User {
	t.Helper()
	name := "nobody"
	if os.Geteuid() != 0 {
		name = fmt.Sprint(os.Geteuid())
		u, err := user.LookupId(name)
		sftpMust(t, err)
		return u
	}
	u, err := user.Lookup(name)
	sftpMust(t, err)
	return u
}

// startServer starts a server that ends with the test.
func startServer(t *testing.T) *server {
	t.Helper()
	testenv.Require(t, "sshd")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	sftpMust(t, err)
	sftpMust(t, os.Chmod(filepath.Dir(dir), 0o755)) // the server's user goes through it
	s := &server{folder: filepath.Join(dir, "media"), dir: dir}
	sftpMust(t, os.Mkdir(s.folder, 0o755))
	u := account(t)
	for _, key := range []string{"hostkey", "id"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.in(key)).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	public, err := os.ReadFile(s.in("id.pub"))
	sftpMust(t, err)
	sftpMust(t, os.WriteFile(s.in("authorized"), public, 0o644))
	s.give(t, u, "hostkey")

	port := freePort(t)
	for tries := 1; !s.run(t, u, port); tries++ {
		if tries == 5 {
			t.Fatal("sshd has ended")
		}
		port = freePort(t) // another process took the port
	}
	key, err := os.ReadFile(s.in("hostkey.pub"))
	sftpMust(t, err)
	sftpMust(t, os.WriteFile(s.in("known"), fmt.Appendf(nil, "[127.0.0.1]:%d %s", port, key), 0o644))
	s.host = Host{
		Name: "node", Address: "127.0.0.1", Port: port, User: u.Username,
		Identity: s.in("id"), KnownHosts: s.in("known"), Folders: []string{s.folder},
	}
	return s
}

// freePort returns a port on which no process listens just now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	sftpMust(t, err)
	sftpMust(t, l.Close())
	return l.Addr().(*net.TCPAddr).Port
}

// configure writes what sshd reads at its start.
func (s *server) configure(t *testing.T, port int) {
	t.Helper()
	sftpMust(t, os.WriteFile(s.in("config"), fmt.Appendf(nil, `ListenAddress 127.0.0.1:%d
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM yes
PasswordAuthentication no
AllowTcpForwarding no
PermitTTY no
Subsystem sftp internal-sftp
ForceCommand internal-sftp
`, port, s.in("hostkey"), s.in("authorized")), 0o644))
}

func (s *server) in(name string) string { return filepath.Join(s.dir, name) }

// give makes a file the server's own.
func (s *server) give(t *testing.T, u *user.User, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	var uid, gid int
	_, err := fmt.Sscan(u.Uid+" "+u.Gid, &uid, &gid)
	sftpMust(t, err)
	sftpMust(t, os.Chown(s.in(name), uid, gid))
}

// run starts sshd and waits until it says that it listens, or reports that it
// has ended before.
func (s *server) run(t *testing.T, u *user.User, port int) bool {
	t.Helper()
	s.configure(t, port)
	cmd := testenv.SSHD(t, "-D", "-e", "-f", s.in("config"))
	if os.Geteuid() == 0 {
		c := &syscall.Credential{}
		_, err := fmt.Sscan(u.Uid+" "+u.Gid, &c.Uid, &c.Gid)
		sftpMust(t, err)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c}
	}
	cmd.Dir = "/"
	said, err := cmd.StderrPipe()
	sftpMust(t, err)
	sftpMust(t, cmd.Start())
	lines := bufio.NewScanner(said)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for lines.Scan() {
			t.Log("sshd: ", lines.Text())
		}
		_ = cmd.Wait() // that it was killed
	})
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Server listening") {
			return true
		}
		t.Log("sshd: ", lines.Text())
	}
	return false
}

func (s *server) put(t *testing.T, name, content string) string {
	t.Helper()
	p := filepath.Join(s.folder, name)
	sftpMust(t, os.MkdirAll(filepath.Dir(p), 0o755))
	sftpMust(t, os.WriteFile(p, []byte(content), 0o644))
	return "node:" + p
}

func (s *server) source(t *testing.T, change ...func(*Host)) *Remote {
	t.Helper()
	h := s.host
	for _, c := range change {
		c(&h)
	}
	r, err := NewSFTP(SFTPOptions{Hosts: []Host{h}})
	sftpMust(t, err)
	return r
}

// TestServer takes files from a real server.
func TestServer(t *testing.T) {
	s := startServer(t)
	src := s.source(t)
	large := bytes.Repeat([]byte("0123456789abcde\n"), 200_000) // 3.2 MB, no multiple of a block
	for name, content := range map[string]string{
		"plain.txt": "hello", "empty": "", "large": string(large), "sub/deep/file": "x",
		"$(touch pwned); `id` 'a' \"b\" *?[x].txt": "names mean nothing", "-oProxyCommand=id": "option", "写真.jpg": "wide",
		"block": strings.Repeat("x", 32<<10), "two blocks": strings.Repeat("x", 64<<10),
	} {
		r, info, err := src.Open(t.Context(), s.put(t, name, content))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != content || info.Size != int64(len(content)) || info.Name != filepath.Base(name) {
			t.Errorf("%q: %d bytes of %+v, %v", name, len(got), info, err)
		}
		sftpMust(t, r.Close())
	}
	t.Run("refused", func(t *testing.T) { testRefusedByServer(t, s, src) })
	t.Run("staged", func(t *testing.T) { testStaged(t, s, src) })
}

func testRefusedByServer(t *testing.T, s *server, src *Remote) {
	sftpMust(t, os.Symlink("/etc/passwd", filepath.Join(s.folder, "link")))
	sftpMust(t, os.Symlink("plain.txt", filepath.Join(s.folder, "inner")))
	sftpMust(t, os.Symlink("/etc", filepath.Join(s.folder, "etc")))
	sftpMust(t, unix.Mkfifo(filepath.Join(s.folder, "pipe"), 0o644))
	s.put(t, "closed", "x")
	sftpMust(t, os.Chmod(filepath.Join(s.folder, "closed"), 0))
	sftpMust(t, os.WriteFile(s.in("outside"), []byte("x"), 0o644))
	at := "node:" + s.folder
	for ref, want := range map[string]sandbox.Code{
		at + "/link": sandbox.CodeCapabilityBlocked, at + "/inner": sandbox.CodeCapabilityBlocked,
		at + "/etc/passwd": sandbox.CodeCapabilityBlocked, at + "/pipe": sandbox.CodeCapabilityBlocked,
		at + "/sub": sandbox.CodeCapabilityBlocked, at + "/none": sandbox.CodeNotFound,
		at + "/../outside": sandbox.CodeCapabilityBlocked, "node:" + s.in("outside"): sandbox.CodeCapabilityBlocked,
		"node:/etc/passwd": sandbox.CodeCapabilityBlocked, "other:" + s.folder + "/plain.txt": sandbox.CodeCapabilityBlocked,
		at: sandbox.CodeCapabilityBlocked,
	} {
		_, _, err := src.Open(t.Context(), ref)
		sftpWantCode(t, ref, err, want)
	}
	if os.Geteuid() == 0 { // else the server's user is ours, and owns it
		_, _, err := src.Open(t.Context(), at+"/closed")
		sftpWantCode(t, "closed", err, sandbox.CodeCapabilityBlocked)
	}
}

// testStaged takes a file all the way, and one that is too large.
func testStaged(t *testing.T, s *server, src *Remote) {
	work, err := filepath.EvalSymlinks(t.TempDir())
	sftpMust(t, err)
	o := Options{Workspace: work, MaxFile: 1 << 20}
	o.Owner.UID, o.Owner.GID = max(os.Geteuid(), 1), max(os.Getegid(), 1)
	stager, err := New(o)
	sftpMust(t, err)
	got, err := stager.Stage(t.Context(), src, []string{s.put(t, "a b.gif", "GIF89a\x00")})
	sftpMust(t, err)
	if got[0].Path != InboundDir+"/a_b.gif" || got[0].MIME != "image/gif" || got[0].Size != 7 {
		t.Errorf("Stage = %+v", got)
	}
	_, err = stager.Stage(t.Context(), src, []string{"node:" + s.folder + "/large"})
	sftpWantCode(t, "large", err, sandbox.CodeCapabilityBlocked)
}

// TestServerThatIsNotTrusted holds that no file comes from a server whose key
// is not known, or that does not know ours.
func TestServerThatIsNotTrusted(t *testing.T) {
	s, other := startServer(t), startServer(t)
	ref := s.put(t, "a", "x")
	for name, change := range map[string]func(*Host){
		"unknown key":             func(h *Host) { h.KnownHosts = s.in("none") },
		"another's key":           func(h *Host) { h.KnownHosts = other.in("known"); h.Port = s.host.Port },
		"not let in":              func(h *Host) { h.Identity = other.in("id") },
		"the client has detached": func(h *Host) { h.Port = 1 },
		"no private key":          func(h *Host) { h.Identity = s.in("none") },
		"nobody's number":         func(h *Host) { h.Address = "127.0.0.1"; h.User = "no-such-user" },
	} {
		_, _, err := s.source(t, change).Open(t.Context(), ref)
		sftpWantCode(t, name, err, sandbox.CodeUnavailable)
		if err == nil || !strings.Contains(err.Error(), "ssh says") {
			t.Errorf("%s: the reason is not told: %v", name, err)
		}
	}
}

// TestServerThatStops ends a call while its file is read, and finds ssh gone.
func TestServerThatStops(t *testing.T) {
	s := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, _, err := s.source(t).Open(ctx, s.put(t, "large", strings.Repeat("x", 8<<20)))
	sftpMust(t, err)
	cancel()
	_, err = io.Copy(io.Discard, r)
	sftpWantCode(t, "reading", err, sandbox.CodeTimeout)
	sftpMust(t, r.Close())
}
