// This file connects to programs that listen inside sandboxes, and finds the
// ports at which they do.

package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

const (
	// portDialWithin is how long a program inside may take to accept a connection.
	portDialWithin = 30 * time.Second
	// portListWithin is how long the search for ports may take, and portListBytes
	// how much it may print: no sandbox can make its host hold more.
	portListWithin, portListBytes = 10 * time.Second, 1 << 20
	// portListMost is how many ports are listed.
	portListMost = 1024
)

// A Port is a TCP port at which a program inside a sandbox listens. All of it may
// be forged by programs inside.
type Port struct {
	Address string // inside, that it is bound to; 0.0.0.0 and :: are all
	Port    int
	PID     int    // inside; 0 where the sandbox cannot tell
	Command string // the program with its arguments, or the beginning of them
}

// Ports returns the ports at which programs inside the sandbox of the request
// listen, by number.
func (m *Manager) Ports(ctx context.Context, req Request) (ports []Port, err error) {
	err = m.WithSandbox(ctx, req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		ports, err = PortsOf(ctx, sb)
		return err
	})
	return ports, err
}

// DialPort connects to a TCP port of the loopback interface inside the sandbox of
// the request. The sandbox is in use until the connection is closed, and the
// connection ends with ctx. Errors are those of [DialPortOf].
func (m *Manager) DialPort(ctx context.Context, req Request, port int) (net.Conn, error) {
	release, err := m.portHolds.hold(ctx, m, req)
	if err != nil {
		return nil, err
	}
	c := &portConn{}
	err = m.WithSandbox(ctx, req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		c.Conn, err = DialPortOf(ctx, sb, port)
		return err
	})
	if err != nil {
		release()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Conn.Close() }) // its user gets the error of its next call
	c.release = sync.OnceFunc(func() {
		stop()
		release()
	})
	return c, nil
}

// PortHolds keep sandboxes in use to whose ports connections are open: each once,
// however many there are, because a use costs a goroutine and a descriptor. They are
// safe for concurrent use.
type portHolds struct {
	mu sync.Mutex
	of map[config.Who]*portHold
}

// A portHold keeps one sandbox in use.
type portHold struct {
	open  int           // connections; guarded by portHolds.mu
	begun chan struct{} // closed when the sandbox is in use, or cannot be
	err   error         // why; readable once begun is closed
	end   chan struct{} // closed when no connection is open
}

// hold keeps the sandbox of req in use until the returned function is called.
func (x *portHolds) hold(ctx context.Context, m *Manager, req Request) (release func(), err error) {
	x.mu.Lock()
	h := x.of[req.Who]
	if h == nil {
		h = &portHold{begun: make(chan struct{}), end: make(chan struct{})}
		if x.of == nil {
			x.of = map[config.Who]*portHold{}
		}
		x.of[req.Who] = h
		go h.keep(context.WithoutCancel(ctx), m, req)
	}
	h.open++
	x.mu.Unlock()
	release = func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if h.open--; h.open == 0 {
			close(h.end)
			if x.of[req.Who] == h {
				delete(x.of, req.Who)
			}
		}
	}
	select {
	case <-h.begun:
		if err = h.err; err != nil {
			x.forget(req.Who, h) // the next connection tries anew
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (x *portHolds) forget(who config.Who, h *portHold) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of[who] == h {
		delete(x.of, who)
	}
}

// keep uses the sandbox of req until the end of h.
func (h *portHold) keep(ctx context.Context, m *Manager, req Request) {
	begun := sync.OnceFunc(func() { close(h.begun) })
	err := m.WithSandbox(ctx, req, func(sandbox.Sandbox, sandbox.Spec) error {
		begun()
		<-h.end
		return nil
	})
	select {
	case <-h.begun:
	default:
		h.err = err
		if err == nil {
			h.err = &sandbox.Error{Code: sandbox.CodeInternal, Op: "dial", Message: "the sandbox was given back before the connection was made"}
		}
		begun()
	}
}

// A portConn is a connection whose close gives its sandbox back.
type portConn struct {
	net.Conn
	release func() // may be called more than once
}

// Close implements [net.Conn].
func (c *portConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite ends the direction inward.
func (c *portConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn returns the socket of the connection, where it has one of its own.
func (c *portConn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// DialPortOf connects to the TCP port of the loopback interface of sb, by either
// family of addresses. Where no program listens the error is CodeUnavailable and
// retryable.
func DialPortOf(ctx context.Context, sb sandbox.Sandbox, port int) (net.Conn, error) {
	d, ok := sb.(sandbox.Dialer)
	if !ok {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "dial", Message: "the provider of this sandbox connects to nothing inside"}
	}
	ctx, cancel := context.WithTimeout(ctx, portDialWithin)
	defer cancel()
	conn, err := d.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	if six, again := d.Dial(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(port))); again == nil {
		return six, nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "dial", Field: "port", Resource: strconv.Itoa(port), Message: "no program in the sandbox listens at the port", Retryable: true, Err: err,
			Hint: "start one that listens at 127.0.0.1, ::1 or all addresses, and try again",
		}
	}
	return nil, err
}

const (
	// copyIdle is the buffer of a direction in which nothing comes, and copyBusy
	// that of one in which much comes.
	copyIdle, copyBusy = 1 << 10, 64 << 10
)

// CopyDirection copies what comes from a connection until its end, as [io.Copy] does.
// While nothing comes it holds a buffer of 1 KiB alone, because most connections to
// ports are idle most of the time.
func CopyDirection(to io.Writer, from io.Reader) error {
	idle := make([]byte, copyIdle)
	for {
		full, err := copyOnce(to, from, idle)
		if err == nil && full {
			err = copyMuch(to, from)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyMuch copies until less comes than a large buffer holds.
func copyMuch(to io.Writer, from io.Reader) error {
	b := make([]byte, copyBusy)
	for {
		if full, err := copyOnce(to, from, b); err != nil || !full {
			return err
		}
	}
}

// copyOnce reads once and writes that, and reports whether at least half of the
// buffer was filled. At the end of what comes the error is io.EOF.
func copyOnce(to io.Writer, from io.Reader, b []byte) (full bool, err error) {
	n, err := from.Read(b)
	if n > 0 {
		if _, failed := to.Write(b[:n]); failed != nil {
			return false, failed
		}
	}
	return n >= len(b)/2, err
}

// portsScript is for sandboxes that do not list ports themselves, such as those with
// the guest of an older version. It prints the sockets that listen, and for each process its number and
// the sockets that it holds. It needs a shell, cat, ls, head and tr alone.
const portsScript = `cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
for p in /proc/[0-9]*; do
held=$(ls -l "$p/fd" 2>/dev/null | while read -r line; do case $line in *"socket:["*) echo "${line##*socket:}";; esac; done | tr '\n' ' ')
[ -n "$held" ] && { echo "P ${p#/proc/} $held"; printf 'C '; head -c 4096 "$p/cmdline" 2>/dev/null | tr '\n\000' '  '; echo; }
done
:`

// PortsOf returns the ports at which programs inside sb listen, by number.
func PortsOf(ctx context.Context, sb sandbox.Sandbox) ([]Port, error) {
	ctx, done := context.WithTimeout(ctx, portListWithin)
	defer done()
	if l, ok := sb.(sandbox.PortLister); ok {
		found, err := l.Ports(ctx)
		if sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			return portsListed(found), err
		}
	}
	text := boundedText{most: portListBytes}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", portsScript}, Dir: "/", Stdout: &text})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		return nil, err
	}
	return parsePorts(text.String()), nil
}

// portsListed returns what a provider has listed, by number.
func portsListed(found []sandbox.ListeningPort) []Port {
	items := make([]Port, 0, len(found))
	for _, p := range found {
		items = append(items, Port{Address: p.Addr.Addr().String(), Port: int(p.Addr.Port()), PID: p.PID, Command: p.Command})
	}
	sortPorts(items)
	return items
}

func sortPorts(items []Port) {
	slices.SortFunc(items, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address), cmp.Compare(a.PID, b.PID))
	})
}

// A boundedText drops what is beyond most bytes.
type boundedText struct {
	bytes.Buffer
	most int
}

func (b *boundedText) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}

// parsePorts reads what portsScript prints. All of it may be forged by programs
// inside: a line that is not understood is skipped.
func parsePorts(text string) []Port {
	type holder struct {
		pid     int
		command string
	}
	holders := map[string]*holder{} // by inode
	listening := map[string]Port{}
	var last *holder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "P ") && len(f) > 2:
			pid, err := strconv.Atoi(f[1])
			if last = nil; err != nil || pid <= 0 {
				continue
			}
			last = &holder{pid: pid}
			for _, inode := range f[2:] {
				if holders[inode] == nil {
					holders[inode] = last
				}
			}
		case strings.HasPrefix(line, "C ") && last != nil:
			last.command = strings.ToValidUTF8(strings.TrimSpace(line[2:]), "\uFFFD")
			last = nil
		case len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[0], ":"):
			if at, ok := listenAddress(f[1]); ok && len(listening) < portListMost {
				listening["["+f[9]+"]"] = Port{Address: at.Addr().String(), Port: int(at.Port())}
			}
		}
	}
	items := []Port{}
	for inode, p := range listening {
		if h := holders[inode]; h != nil {
			p.PID, p.Command = h.pid, h.command
		}
		items = append(items, p)
	}
	sortPorts(items)
	return items
}

// listenAddress reads an address of /proc/net/tcp: words of four bytes in the
// order of the machine, which is little-endian on all that are supported.
func listenAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	data, err := hex.DecodeString(host)
	number, bad := strconv.ParseUint(port, 16, 16)
	if err != nil || bad != nil || number == 0 || len(data) != 4 && len(data) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(data); i += 4 {
		slices.Reverse(data[i : i+4])
	}
	addr, _ := netip.AddrFromSlice(data)
	return netip.AddrPortFrom(addr, uint16(number)), true
}
