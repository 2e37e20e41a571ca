package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// short sends requests that change something while there is no room for it. Each
// has to be carried out, or refused with a code; short returns how many were
// refused.
func (h *fixture) short(t *testing.T, box, session string) (refused int) {
	t.Helper()
	for name, r := range map[string][3]string{
		"a command": {"POST", "/v1/sandboxes/" + box + "/exec", `{"line":"echo fine"}`},
		"a sandbox": {"POST", "/v1/sandboxes", `{"session":"` + session + `"}`},
		"a token":   {"POST", "/v1/tokens", `{"role":"tenant","tenant":"t"}`},
		"the list":  {"GET", "/v1/sandboxes", ""},
	} {
		got := h.send("", r[0], r[1], r[2])
		switch {
		case got.status < 300 && name == "a command":
			if e := is[api.ExecResult](t, got, 200); e.Stdout != "fine\n" || e.ExitCode != 0 {
				t.Errorf("a command that succeeds says %+v", e)
			}
		case got.status < 300 && name == "the list":
			for _, b := range is[api.SandboxPage](t, got, 200).Items {
				if b.Name == box && b.Status != "running" {
					t.Errorf("a sandbox that runs is told to be %s", b.Status)
				}
			}
		case got.status >= 300:
			refused++
			if p := is[api.Problem](t, got, 429, 503); p.Code == "" || strings.Contains(p.Hint, "chown") {
				t.Errorf("%s is refused with %s", name, got.body)
			}
		}
	}
	return refused
}

// well holds that the daemon works as before.
func (h *fixture) well(t *testing.T, box string) {
	t.Helper()
	if got := h.exec("", box, "echo fine"); got.Stdout != "fine\n" {
		t.Errorf("afterwards a command says %+v", got)
	}
	awaits(t, "it is ready", func() bool { return h.send("", "GET", "/readyz", "").status == 200 }) // a slow dependency makes it unready for a while
	is[api.Sandbox](t, h.send("", "POST", "/v1/sandboxes", `{"session":"afterwards"}`), 201)
	if v := is[api.EvidenceReport](t, h.send("", "GET", "/v1/evidence/verify", ""), 200); !v.OK {
		t.Errorf("the records are not whole: %+v", v)
	}
}

// TestHalfOpenConnections has clients without a token connect over TCP and send
// nothing, or half of a request, or requests that need no token, more often than
// there are descriptors: callers with a token or on the unix socket are served
// all the same.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	h := startAttack(t, alone, filepath.Join(t.TempDir(), "state"), "sh", "-c", `ulimit -Sn 48; ulimit -Hn 96; exec "$0" "$@"`)
	box := is[api.Sandbox](t, h.send("", "POST", "/v1/sandboxes", `{"session":"first"}`), 201).Name
	token := is[api.NewToken](t, h.send("", "POST", "/v1/tokens", `{"role":"tenant","tenant":"t"}`), 201).Secret
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", h.pid))
	must(t, err)
	if !regexp.MustCompile(`(?m)^Max open files +9[56] +96 `).Match(limits) {
		t.Errorf("the soft limit is not raised:\n%s", limits)
	}
	for i := range 300 {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%20))}}
		c, err := from.Dial("tcp", h.addr)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		says := []string{"", "GET /v1/sandboxes HTTP/1.1\r\nHost: ", "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n"}
		_, _ = io.WriteString(c, says[i%len(says)]) // it may be closed already
		if i%60 == 0 {
			if got := h.exec("", box, "echo fine"); got.Stdout != "fine\n" {
				t.Errorf("with %d connections a command says %+v", i, got)
			}
			h.tcp.CloseIdleConnections()
			is[api.SandboxPage](t, h.send(token, "GET", "/v1/sandboxes", ""), 200)
		}
	}
	h.well(t, box)
}

// TestFewDescriptors has idle clients take the daemon's descriptors until few
// are left, each time one more.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	const most = 64
	h := startAttack(t, alone, filepath.Join(t.TempDir(), "state"), "sh", "-c", `ulimit -n 64; exec "$0" "$@"`)
	box := is[api.Sandbox](t, h.send("", "POST", "/v1/sandboxes", `{"session":"first"}`), 201).Name
	refused := 0
	for _, left := range []int{1, 2, 3, 4, 6, 9, 13} {
		h.admin.CloseIdleConnections()
		var idle []net.Conn
		for h.descriptors() < most-left-1 { // one is the connection that asks
			c, err := net.Dial("unix", h.sock)
			must(t, err)
			idle = append(idle, c)
			must(t, c.SetDeadline(time.Now().Add(time.Minute)))
			_, err = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			must(t, err)
			_, err = c.Read(make([]byte, 4<<10)) // it has been taken, and is kept
			must(t, err)
		}
		refused += h.short(t, box, fmt.Sprintf("with-%d", left))
		for _, c := range idle {
			c.Close()
		}
		awaits(t, "the connections are let go", func() bool { return h.descriptors() < most/2 })
	}
	if refused == 0 {
		t.Error("control: there were enough of them for everything")
	}
	h.well(t, box)
}

// TestFullDisk fills the disk of the state folder, and frees it again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	disk := testenv.Disk(t, "16m")
	h := startAttack(t, alone, filepath.Join(disk, "state"))
	box := is[api.Sandbox](t, h.send("", "POST", "/v1/sandboxes", `{"session":"first"}`), 201).Name
	lost := h.mint("", api.CreateToken{Role: "tenant", Tenant: victim})
	filling, err := os.Create(filepath.Join(disk, "filling"))
	must(t, err)
	for n := 1 << 16; n > 0; {
		switch _, err := filling.Write(make([]byte, n)); {
		case errors.Is(err, syscall.ENOSPC):
			n /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	must(t, filling.Close())
	if refused := h.short(t, box, "second"); refused < 2 {
		t.Errorf("control: %d were refused", refused)
	}
	is[any](t, h.send("", "GET", "/readyz", ""), 503)
	if got := h.send("", "PUT", "/v1/sandboxes/"+box+"/files/workspace/large", strings.Repeat("x", 1<<20), "Content-Type", "application/octet-stream"); got.status != 503 || !strings.Contains(string(got.body), "the disk of the machine") {
		t.Errorf("a file that has no room is written, or a budget is blamed: %d %s", got.status, got.body)
	}
	is[any](t, h.send("", "GET", "/v1/sandboxes/"+box+"/files/workspace/large", ""), 404) // nor a part of it
	is[api.Revoked](t, h.send("", "DELETE", "/v1/tokens/"+lost.ID, ""), 200)
	is[api.Problem](t, h.send(lost.Secret, "GET", "/v1/tokens", ""), 401)
	must(t, os.Remove(filling.Name()))
	h.well(t, box)
}

// descriptors returns how many descriptors the daemon has open.
func (h *fixture) descriptors() int {
	h.t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.pid))
	must(h.t, err)
	return len(all)
}
