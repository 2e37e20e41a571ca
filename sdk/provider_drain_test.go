package sdk_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/auth"
	serverremote "github.com/bulkhead-dev/sandbox/server/remote"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// TestDrainKeepsEgress holds that what runs while a daemon drains has its way
// out until its grace is over, connections that come in meanwhile included, and
// that it ends with it.
func TestDrainKeepsEgress(t *testing.T) {
	inner := fake.New(faked.Options())
	set, err := provider.New(inner)
	must(t, err)
	h := serverremote.NewWalls(serverremote.Options{Providers: set, Instances: func(string) bool { return true }})
	t.Cleanup(func() { h.Close() })
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, err := server.New(server.Options{
		Log: log, Mounts: []server.Mount{{Pattern: "/v1/walls/", Admin: true, Handler: h}},
		Identify: func(*http.Request) (auth.Caller, error) { return auth.Caller{Role: token.Admin}, nil },
	})
	must(t, err)
	sock := filepath.Join(t.TempDir(), "d.sock")
	at, err := net.Listen("unix", sock)
	must(t, err)
	server := d.HTTP()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(at) // ends with the drain
	}()
	c, err := sdk.NewAPI("unix:"+sock, sdk.APIOptions{})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	p, err := sdk.OpenProvider(t.Context(), c, "", sdk.ProviderOptions{})
	must(t, err)
	s := faked.Spec("a")
	_, err = p.Create(t.Context(), s)
	must(t, err)
	sb, err := p.Open(t.Context(), s)
	must(t, err)
	l, err := sb.(sandbox.Listener).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)

	drain, over := context.WithCancel(t.Context())
	defer over()
	drained := make(chan error, 1)
	go func() { drained <- d.Drain(drain, 10*time.Minute) }()
	testenv.Until(t, "nothing new is taken", func() bool { return p.Probe(t.Context()) != nil })
	program, err := inner.Open(t.Context(), s)
	must(t, err)
	defer program.Close()
	for range 3 {
		from, err := program.(sandbox.Dialer).Dial(t.Context(), "tcp", l.Addr().String())
		must(t, err)
		to, err := l.Accept()
		must(t, err)
		go io.WriteString(from, "hello") // a failure shows in what comes
		got := make([]byte, 5)
		if _, err := io.ReadFull(to, got); err != nil || string(got) != "hello" {
			t.Fatalf("while the daemon drains: %q, %v", got, err)
		}
	}
	over() // as when the grace has passed
	if _, err := l.Accept(); err == nil {
		t.Error("the listener outlives the daemon")
	}
	must(t, h.Close())
	if _, err := program.(sandbox.Dialer).Dial(t.Context(), "tcp", l.Addr().String()); err == nil {
		t.Error("it is still listened inside")
	}
	<-drained // whose context has ended
	<-ended
	must(t, sb.Close())
}
