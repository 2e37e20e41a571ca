package egress_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// replaced puts one text in place of another.
func replaced(s, old, by string) string { return strings.ReplaceAll(s, old, by) }

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestClose checks that closing a Session ends everything that goes through it.
func TestClose(t *testing.T) {
	began := make(chan net.Conn, 10)
	port := listen(t, func(conn net.Conn) {
		began <- conn
		io.Copy(io.Discard, conn)
	})
	w := open(t, allow(port, "tcp://web.test:"+port, "http://web.test:"+port))
	tunnel, _ := w.connect("web.test:" + port)
	<-began
	request := w.dial()
	io.WriteString(request, "GET http://web.test:"+port+"/ HTTP/1.1\r\nHost: web.test:"+port+"\r\n\r\n")
	<-began
	upload := w.dial()
	io.WriteString(upload, "POST http://web.test:"+port+"/ HTTP/1.1\r\nHost: web.test:"+port+"\r\nContent-Length: 99999\r\n\r\nabc")
	<-began
	silent := w.dial()
	testenv.Until(t, "all four are taken", func() bool { return w.plane.Counters().Connections == 4 })
	w.session.Close()
	<-w.session.Done()
	for name, conn := range map[string]net.Conn{"tunnel": tunnel, "request": request, "upload": upload, "silent": silent} {
		if b, err := io.ReadAll(conn); len(b) != 0 || errors.Is(err, errTimeout(err)) {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	if conn, err := net.Dial("tcp", w.addr); err == nil {
		conn.Close()
		t.Error("the listener is still there")
	}
	if c := w.plane.Counters(); c.Open != 0 || c.Connections != 4 {
		t.Errorf("%+v", c)
	}
	if n := len(w.wait(3, ends)); n != 3 {
		t.Errorf("%d ends", n)
	}
}

// errTimeout returns err if it is a timeout.
func errTimeout(err error) error {
	if n, ok := err.(net.Error); ok && n.Timeout() {
		return err
	}
	return io.EOF
}

func TestOpenRefuses(t *testing.T) {
	p := egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{})})
	defer p.Close()
	none, err := network.New(network.Options{})
	if err != nil {
		t.Fatal(err)
	}
	some, err := network.New(network.Options{Allowed: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := secret.NewSet(t.Context(), nil, secret.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]egress.SessionOptions{"no policy": {}, "mode none": {Policy: none}, "secrets without an authority": {Policy: some, Secrets: set}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if w, err := p.Open(l, o); w != nil || sandbox.CodeOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener is left open: %v", name, err)
		}
	}
	p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if w, err := p.Open(l, egress.SessionOptions{Policy: some}); w != nil || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a closed plane opens: %v", err)
	}
}

// TestListenerFails checks that a Session ends with its listener.
func TestListenerFails(t *testing.T) {
	some, err := network.New(network.Options{Allowed: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	p := egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{})})
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Open(l, egress.SessionOptions{Policy: some})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	<-w.Done()
}

// slowToClose is a listener whose Accept ends long before it is closed, like a
// listener in another process.
type slowToClose struct {
	net.Listener
	ended  chan struct{} // closed when Accept has to end
	free   chan struct{} // closed when the address may be free
	closed atomic.Bool
}

func (l *slowToClose) Accept() (net.Conn, error) {
	<-l.ended
	return nil, net.ErrClosed
}

func (l *slowToClose) Close() error {
	close(l.ended)
	<-l.free
	err := l.Listener.Close()
	l.closed.Store(true)
	return err
}

// TestDoneAfterTheListener checks that a Session is not done before its address is
// free.
func TestDoneAfterTheListener(t *testing.T) {
	some, err := network.New(network.Options{Allowed: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	p := egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{})})
	defer p.Close()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &slowToClose{Listener: plain, ended: make(chan struct{}), free: make(chan struct{})}
	w, err := p.Open(l, egress.SessionOptions{Policy: some})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan bool, 1)
	go func() {
		w.Close()
		over <- l.closed.Load()
	}()
	<-l.ended
	select {
	case <-w.Done():
		t.Error("the way out is done while its listener is not closed")
	case <-time.After(100 * time.Millisecond):
	}
	close(l.free)
	if !<-over {
		t.Error("Close returned before the listener was closed")
	}
}

// TestPanic checks that a panic in serving one connection ends that connection
// only.
func TestPanic(t *testing.T) {
	port := serve(t, echo)
	var once sync.Once
	w := open(t, allow(port, "web.test:"+port), func(o *egress.Options, _ *egress.SessionOptions) {
		record := o.Record
		o.Record = func(e egress.Event) {
			record(e)
			once.Do(func() { panic("a fault") })
		}
	})
	get := "GET http://web.test:" + port + "/ HTTP/1.1\r\nHost: web.test:" + port + "\r\n\r\n"
	conn := w.dial()
	io.WriteString(conn, get)
	if b, _ := io.ReadAll(conn); len(b) != 0 {
		t.Errorf("an answer all the same: %q", b)
	}
	if resp, _ := w.raw(get); resp.StatusCode != 200 || w.plane.Counters().Panics != 1 {
		t.Errorf("%s, %+v", resp.Status, w.plane.Counters())
	}
}
