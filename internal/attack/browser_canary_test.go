package attack_test

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// A canary listens on every loopback address inside the container of a
// browser, which no page may reach, and reports every connection and datagram.
type canary struct {
	t    testing.TB
	c    browser.Container
	port int

	mu    sync.Mutex
	heard []string
}

// listener prints its port, and then a line for each connection.
const listener = `
import socket, threading
def serve(family, host, kind, port):
    try:
        s = socket.socket(family, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, port))
    except OSError:
        return None
    return s
first = serve(socket.AF_INET, "0.0.0.0", socket.SOCK_STREAM, 0)
port = first.getsockname()[1]
all = [first, serve(socket.AF_INET6, "::1", socket.SOCK_STREAM, port), serve(socket.AF_INET, "0.0.0.0", socket.SOCK_DGRAM, port)]
def hear(s):
    if s.type == socket.SOCK_DGRAM:
        while True:
            data, who = s.recvfrom(2048)
            print("udp", flush=True)
    s.listen(64)
    while True:
        c, _ = s.accept()
        c.settimeout(30)
        try:
            data = c.recv(200).decode("latin-1").split("\r\n")[0]
        except OSError:
            data = ""
        print("tcp " + ascii(data), flush=True)
        c.close()
for s in all:
    if s: threading.Thread(target=hear, args=(s,), daemon=False).start()
print("port %d" % port, flush=True)
`

// newCanary starts a canary. The test fails at its end if the canary was
// reached.
func newCanary(t testing.TB, c browser.Container) *canary {
	t.Helper()
	k := &canary{t: t, c: c}
	out, w := io.Pipe()
	ctx, done := context.WithCancel(context.Background()) // it is there until the test ends
	t.Cleanup(done)
	p, err := c.Start(ctx, sandbox.Command{Args: []string{"python3", "-u", "-c", listener}, Dir: "/", Stdout: w, Stderr: w})
	must(t, err)
	port := make(chan int, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "port "); ok {
				n, _ := strconv.Atoi(text)
				port <- n
				continue
			}
			k.mu.Lock()
			k.heard = append(k.heard, lines.Text())
			k.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		if got := k.visits(); len(got) > 0 {
			t.Errorf("somebody came to the port inside: %q", got)
		}
		_ = p.Kill(patient(t))
		_, _ = p.Wait()
		w.Close()
		reading.Wait()
	})
	select {
	case k.port = <-port:
	case <-patient(t).Done():
		t.Fatalf("nobody listens inside: %q", k.heard)
	}
	k.sings()
	return k
}

// sings is the control: a connection is reported. Earlier connections are
// reported by then, too.
func (k *canary) sings() {
	k.t.Helper()
	conn, err := k.c.Dial(patient(k.t), "tcp", "127.0.0.1:"+itoa(k.port))
	must(k.t, err)
	const hello = "hello canary"
	_, err = io.WriteString(conn, hello+"\r\n")
	must(k.t, err)
	_, _ = io.Copy(io.Discard, conn)
	conn.Close()
	await(k.t, "the canary sings", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, line := range k.heard {
			if strings.Contains(line, hello) {
				k.heard = append(k.heard[:i:i], k.heard[i+1:]...)
				return true
			}
		}
		return false
	})
}

// visits returns the connections not made by the test.
func (k *canary) visits() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.heard...)
}

// forget discards the connections made on purpose.
func (k *canary) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = nil
}
