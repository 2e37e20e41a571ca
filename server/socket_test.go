package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestParse(t *testing.T) {
	for in, ok := range map[string]bool{
		"unix:/run/s.sock": true, "tcp:127.0.0.1:1": true, "tcp:[::1]:80": true, "tcp:host:http": true,
		"": false, "unix:": false, "unix:s.sock": false, "unix:/a/../b": false, "unix:/" + strings.Repeat("a", 107): false, "tcp:": false, "tcp:80": false, "tcp::80": false, "tcp:host": false, "udp:host:1": false, "/run/s.sock": false,
	} {
		if _, _, err := parseSocket(in); (err == nil) != ok || err != nil && sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestUnixSocketsMakeWayWhenNobodyAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	ls, err := Open([]string{"unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	if _, err := Open([]string{"unix:" + path}); sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), path) {
		t.Errorf("somebody answers, and: %v", err)
	}
	Close(ls)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("it is left behind: %v", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open([]string{"tcp:127.0.0.1:0", "unix:" + path}); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a file at the path: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

// TestWhereNobodyCanListenIsNamed holds that errors name the address, and what
// to do next.
func TestWhereNobodyCanListenIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for address, code := range map[string]sandbox.Code{
		"tcp:" + l.Addr().String():                           sandbox.CodeBusy,
		"unix:" + filepath.Join(t.TempDir(), "no", "s.sock"): sandbox.CodeUnavailable,
		"8080": sandbox.CodeValidation,
	} {
		ls, err := Open([]string{address})
		Close(ls)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, address) || e.Hint == "" {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	ls, err := Open([]string{"tcp:127.0.0.1:0", "tcp:0.0.0.0:0", "unix:" + filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(ls)
	for i, want := range []bool{true, false, true} {
		if Loopback(ls[i]) != want {
			t.Errorf("%v: loopback is not %v", ls[i].Addr(), want)
		}
	}
	if _, err := Open([]string{"tcp:" + ls[0].Addr().String()}); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a port that is taken: %v", err)
	}
}

func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	release, err := Lock(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(file); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a second one: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = Lock(file); err != nil {
		t.Fatal(err)
	}
	release()
}
