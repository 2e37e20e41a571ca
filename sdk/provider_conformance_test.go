package sdk_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
	"github.com/bulkhead-dev/sandbox/sdk"
	serverremote "github.com/bulkhead-dev/sandbox/server/remote"
)

// TestConformanceOfFake runs the suite of all walls through a daemon on a real
// socket, with the wall in memory behind it.
func TestConformanceOfFake(t *testing.T) {
	providertest.Run(t, through(faked.Harness()))
}

// A remote is a provider behind a daemon, beside the one that it stands for.
type remoteEngine struct {
	*sdk.Provider
	inner sandbox.Provider
	sock  string
}

// behindDaemon serves p on a unix socket and returns it as its clients see it.
func behindDaemon(t testing.TB, p sandbox.Provider) remoteEngine {
	t.Helper()
	set, err := provider.New(p)
	must(t, err)
	h := serverremote.NewWalls(serverremote.Options{Providers: set, Instances: func(string) bool { return true }})
	sock := filepath.Join(t.TempDir(), "daemon.sock")
	l, err := net.Listen("unix", sock)
	must(t, err)
	var open sync.WaitGroup // connections that the server still serves
	server := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		}
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		h.Close()
		server.Close()
		<-done
		open.Wait()
	})
	return reach(t, p, sock)
}

// reach is another client of the same daemon.
func reach(t testing.TB, p sandbox.Provider, sock string) remoteEngine {
	t.Helper()
	c, err := sdk.NewAPI("unix:"+sock, sdk.APIOptions{})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, err := sdk.OpenProvider(ctx, c, p.Name(), sdk.ProviderOptions{})
	must(t, err)
	return remoteEngine{w, p, sock}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// through is the harness h with its provider behind a daemon.
func through(h providertest.Harness) providertest.Harness {
	make := func(inner func(testing.TB) sandbox.Provider) func(testing.TB) sandbox.Provider {
		if inner == nil {
			return nil
		}
		return func(t testing.TB) sandbox.Provider { return behindDaemon(t, inner(t)) }
	}
	behind := func(do func(testing.TB, sandbox.Provider, string)) func(testing.TB, sandbox.Provider, string) {
		return func(t testing.TB, p sandbox.Provider, name string) {
			t.Helper()
			do(t, p.(remoteEngine).inner, name)
		}
	}
	h.New, h.Down, h.Hanging = make(h.New), make(h.Down), make(h.Hanging)
	h.Behind = providertest.Behind{
		Stop: behind(h.Behind.Stop), Pause: behind(h.Behind.Pause), Restart: behind(h.Behind.Restart), Destroy: behind(h.Behind.Destroy),
	}
	h.Reconnect = func(t testing.TB, p sandbox.Provider) sandbox.Provider {
		r := p.(remoteEngine)
		return reach(t, r.inner, r.sock)
	}
	// All that is written goes through two more programs' worth of hands, and
	// with the race detector through slow ones.
	h.Patience = 2 * time.Minute
	folder := h.Folder
	h.Folder = func(t testing.TB, p sandbox.Provider) string {
		t.Helper()
		return folder(t, p.(remoteEngine).inner)
	}
	return h
}
