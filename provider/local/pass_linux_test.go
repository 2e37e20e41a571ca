package local_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// TestListenerIsASocket holds that a listener in an instance is a socket of this
// process, that programs inside reach it, and that it falls with the instance.
func TestListenerIsASocket(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	s := r.spec("pass")
	sb := r.open(p, s)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	l, err := sb.(sandbox.Listener).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, ok := conn.(*net.TCPConn); !ok {
			t.Errorf("Accept returned a %T", conn)
		}
		_, _ = io.WriteString(conn, "hello")
	}()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if out, code := sh(t, sb, "bash -c 'cat < /dev/tcp/127.0.0.1/"+port+"'"); out != "hello" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	<-served
	near, err := sb.(sandbox.Dialer).Dial(ctx, "tcp", l.Addr().String())
	must(t, err)
	defer near.Close()
	far, err := l.Accept()
	must(t, err)
	defer far.Close()
	must(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now()))
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Accept at its deadline: %v", err)
	}
	must(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Time{}))
	r.kill(t, p, s.Name)
	if _, err := l.Accept(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("Accept after the end: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
}
