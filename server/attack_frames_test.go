package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// The kinds of frames, the bit of the last frame, and an invalid length.
const (
	goesOn, text1, bytes1, closes, pings, pongs = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
	attackLast                                  = 0x80
	bare                                        = -1 // as a length: not masked
)

// frame returns a frame as a client sends it, with a mask of zeros. A length
// other than 0 replaces the true one in the header.
func frame(first byte, data string, length int64) string {
	masked, n := byte(0x80), int64(len(data))
	switch {
	case length == bare:
		masked = 0
	case length != 0:
		n = length
	}
	b := []byte{first}
	switch {
	case n >= 0 && n < 126:
		b = append(b, masked|byte(n))
	case n >= 0 && n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, masked|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, masked|127), uint64(n))
	}
	if masked != 0 {
		b = append(b, 0, 0, 0, 0)
	}
	return string(b) + data
}

// A wire is a connection that has become a WebSocket.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func (h *fixture) wire(path string) wire {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	must(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	must(h.t, conn.SetDeadline(time.Now().Add(3*time.Minute)))
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+h.addr+"\r\nAuthorization: Bearer "+h.mine+"\r\n"+strings.ReplaceAll(shake, "\n", "\r\n")+"\r\n")
	must(h.t, err)
	w := wire{conn, bufio.NewReader(conn)}
	status, err := w.in.ReadString('\n')
	must(h.t, err)
	if !strings.Contains(status, " 101 ") {
		h.t.Fatal(status)
	}
	for line := ""; line != "\r\n"; {
		line, err = w.in.ReadString('\n')
		must(h.t, err)
	}
	return w
}

// rest returns everything that arrives until the other side ends the connection.
func (w wire) rest(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(w.in)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("the connection is not ended; so far %.200q", b)
	}
	return string(b)
}

// TestFrames sends data that is no WebSocket, and frames that no correct client
// sends, to the commands and terminals of a sandbox. A violation of the protocol
// ends its own connection and starts nothing, and the daemon holds no more
// afterwards than before.
func TestFrames(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	h := startAttack(t, alone, filepath.Join(t.TempDir(), "state"))
	h.mine = h.mint("", api.CreateToken{Role: "tenant", Tenant: hostile}).Secret
	box := "/v1/sandboxes/" + is[api.Sandbox](t, h.send(h.mine, "POST", "/v1/sandboxes", `{"session":"frames"}`), 201).Name
	const request = `{"args":["sh","-c","echo ran >> /workspace/ran"]}`
	for name, bytes := range map[string]string{
		"what goes on and never began":  frame(attackLast|goesOn, request, 0),
		"a second message in the first": frame(text1, request[:5], 0) + frame(attackLast|text1, request, 0),
		"a ping of 126 bytes":           frame(attackLast|pings, strings.Repeat("x", 126), 0),
		"a ping in parts":               frame(pings, "x", 0),
		"a close in parts":              frame(closes, "\x03\xe8", 0),
		"no mask":                       frame(attackLast|text1, request, bare),
		"the first reserved bit":        frame(attackLast|0x40|text1, request, 0),
		"the second reserved bit":       frame(attackLast|0x20|text1, request, 0),
		"the third reserved bit":        frame(attackLast|0x10|text1, request, 0),
		"a kind that there is not":      frame(attackLast|0x3, request, 0),
		"a control that there is not":   frame(attackLast|0xB, "", 0),
		"a length below zero":           frame(attackLast|text1, "", -2),
		"a request of 2^62 bytes":       frame(attackLast|text1, strings.Repeat(" ", 5<<20), 1<<62),
		"closed with 0":                 frame(attackLast|closes, "\x00\x00", 0),
		"closed with 1005":              frame(attackLast|closes, "\x03\xed", 0),
		"closed with 65535":             frame(attackLast|closes, "\xff\xff", 0),
		"closed with one byte":          frame(attackLast|closes, "\x03", 0),
		"closed in no text":             frame(attackLast|closes, "\x03\xe8\xff\xfe", 0),
		"a request that is no text":     frame(attackLast|text1, `{"args":["sh","-c","echo ran >> /workspace/ran","`+"\xff"+`"]}`, 0),
		"a request with two commands":   frame(attackLast|text1, `{"args":["true"],"args":["sh","-c","echo ran >> /workspace/ran"]}`, 0),
		"a request in bytes":            frame(attackLast|bytes1, request, 0),
	} {
		for _, path := range []string{"/attach", "/pty"} {
			w := h.wire(box + path)
			if _, err := io.WriteString(w, bytes); err != nil {
				t.Logf("%s: it does not take all: %v", name, err)
			}
			if got := w.rest(t); strings.Contains(got, `"exit"`) || strings.Contains(got, `"started"`) {
				t.Errorf("%s at %s is answered %q", name, path, got)
			}
		}
	}
	if got := h.exec(h.mine, filepath.Base(box), "cat ran 2>/dev/null; true").Stdout; got != "" {
		t.Errorf("something has run: %q", got)
	}
	var whole strings.Builder
	for i := range len(request) {
		whole.WriteString(frame([]byte{text1, goesOn}[min(i, 1)], request[i:i+1], 0) + frame(attackLast|pings, "p", 0) + frame(attackLast|pongs, "nobody asked", 0))
	}
	for name, bytes := range map[string]string{
		"at every byte":     whole.String() + frame(attackLast|goesOn, "", 0),
		"in 10^6 of 0 byte": frame(text1, request[:9], 0) + strings.Repeat(frame(goesOn, "", 0), 1_000_000) + frame(attackLast|goesOn, request[9:], 0),
	} {
		before := h.figures()
		w := h.wire(box + "/attach")
		done := make(chan string, 1)
		go func() { done <- w.rest(t) }()
		_, err := io.WriteString(w, bytes)
		must(t, err)
		if got := <-done; !strings.Contains(got, `"exit":{"code":0`) {
			t.Errorf("a request in pieces, %s: %q", name, got)
		}
		if after := h.figures(); after["VmRSS"]-before["VmRSS"] > 64<<10 {
			t.Errorf("a request in pieces, %s, takes %d KiB", name, after["VmRSS"]-before["VmRSS"])
		}
	}
	if got := h.exec(h.mine, filepath.Base(box), "cat ran").Stdout; got != "ran\nran\n" {
		t.Errorf("control: what was sent in pieces has done %q", got)
	}
	awaits(t, "the connections are let go", func() bool { return h.sockets() < 16 })
}

// figures returns the memory figures of the kernel for the daemon, in KiB.
func (h *fixture) figures() map[string]int {
	h.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.pid))
	must(h.t, err)
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 {
			out[strings.TrimSuffix(f[0], ":")], _ = strconv.Atoi(f[1]) // others are no numbers
		}
	}
	return out
}

// sockets returns how many sockets the daemon has open.
func (h *fixture) sockets() (n int) {
	h.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", h.pid)
	all, err := os.ReadDir(dir)
	must(h.t, err)
	for _, e := range all {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
