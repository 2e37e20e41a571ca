//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// insideServer is a server of HTTP that images with Perl can run: at the port of its
// argument it answers /N with N bytes, on connections that are kept. It prints its
// port.
const insideServer = `$| = 1; $SIG{PIPE} = "IGNORE"; my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1) or die $!;
print $l->sockport . "\n"; my $s = IO::Select->new($l); my (%in, %piece); $piece{0} = "x" x 1048576;
while (1) { for my $c ($s->can_read) {
if ($c == $l) { my $n = $l->accept or next; setsockopt($n, 6, 1, 1); $s->add($n); $in{$n} = ""; next }
if (!sysread($c, $in{$c}, 65536, length $in{$c})) { $s->remove($c); delete $in{$c}; close $c; next }
while ($in{$c} =~ s/^GET [^ ]*?(\d+) HTTP.*?\r\n\r\n//s) { my $left = $1; my $head = "HTTP/1.1 200 OK\r\nContent-Length: $left\r\n\r\n";
if ($left <= 4096) { syswrite($c, $head . ("x" x $left)); next }
syswrite($c, $head); while ($left > 0) { my $n = syswrite($c, $piece{0}, $left < 1048576 ? $left : 1048576); last unless $n; $left -= $n } } } }`

// innerPort is where the server listens inside.
const innerPort = 18_080

// A forwards is one server on this machine and the same one in a sandbox of the
// daemon, with the ways to them.
type forwards struct {
	ways []struct {
		name, base string
		client     *http.Client
	}
}

// forwards starts both servers and `sandbox port forward`, the same ones each time.
func (s *Session) forwards(ctx context.Context) (*forwards, error) {
	if s.forwarding != nil {
		return s.forwarding, nil
	}
	d, name, err := s.servedBox(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"perl", "-MIO::Socket::INET", "-MIO::Select", "-e", insideServer}
	line, err := s.Rig.background(exec.Command(args[0], append(args[1:], "0")...))
	if err != nil {
		return nil, err
	}
	host := "http://127.0.0.1:" + strings.TrimSpace(line)
	if _, err := d.Unix.StartProcess(ctx, name, api.StartProcess{Exec: api.Exec{Args: append(args, strconv.Itoa(innerPort)), TimeoutSeconds: 600}}); err != nil {
		return nil, err
	}
	forward := exec.Command(s.Program, append(d.flags, "port", "forward", "--format", "json", "0:"+strconv.Itoa(innerPort))...)
	forward.Env = d.env
	if line, err = s.Rig.background(forward); err != nil {
		return nil, err
	}
	var v struct{ Address string }
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		return nil, err
	}
	f := &forwards{}
	add := func(way, base string, c *http.Client) {
		f.ways = append(f.ways, struct {
			name, base string
			client     *http.Client
		}{way, base, c})
	}
	plain := func() *http.Client {
		t := &http.Transport{DisableCompression: true}
		s.Rig.later(func(context.Context) error { t.CloseIdleConnections(); return nil })
		return &http.Client{Transport: t}
	}
	add(WayHost, host, plain())
	add(WayForward, "http://"+v.Address, plain())
	add(WayHTTP, "http://localhost"+api.Prefix+"/sandboxes/"+url.PathEscape(name)+"/ports/"+strconv.Itoa(innerPort), d.HTTP)
	s.forwarding = f
	return f, nil
}

// background starts a program that ends with the rig, and returns its first line.
func (r *rig) background(c *exec.Cmd) (line string, err error) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	r.later(func(context.Context) error {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		return nil
	})
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", sandbox.Errorf(sandbox.CodeUnavailable, "start "+c.Path, "it has said nothing: %w", err)
	}
	return line, nil
}

// forwarded measures a request to a server inside beside the same one to the same
// server on this machine.
func (s *Session) forwarded(ctx context.Context) (operation, error) {
	return s.fetchPort(ctx, 2, 60, 20)
}

// forwardedLarge is forwarded for an answer of many bytes.
func (s *Session) forwardedLarge(ctx context.Context) (operation, error) {
	return s.fetchPort(ctx, s.Effort.Bytes, 8, 1)
}

func (s *Session) fetchPort(ctx context.Context, size int64, rounds, turn int) (operation, error) {
	f, err := s.forwards(ctx)
	if err != nil {
		return operation{}, err
	}
	op := operation{rounds: rounds}
	if size > 4<<10 {
		op.bytes = size
	}
	buffer := make([]byte, 1<<20)
	for _, w := range f.ways {
		var got int64
		take := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/"+strconv.FormatInt(size, 10), nil)
			if err != nil {
				return err
			}
			a, err := w.client.Do(r)
			if err != nil {
				return err
			}
			defer a.Body.Close()
			got, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{a.Body}, buffer)
			if err == nil && a.StatusCode != http.StatusOK {
				err = wrong("the answer is %s", a.Status)
			}
			return err
		}
		op.ways = append(op.ways, way{name: w.name, turn: turn, take: timed(take, func(context.Context) error {
			if got != size {
				return wrong("%d bytes came of %d", got, size)
			}
			return nil
		})})
	}
	return op, nil
}
