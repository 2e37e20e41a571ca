package sdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/sdk"
	serverremote "github.com/bulkhead-dev/sandbox/server/remote"
)

// A yard is a served wall in memory, whose daemon was told of one instance.
type yard struct {
	*testing.T
	inner   *fake.Provider
	remote  *sdk.Provider
	handler *serverremote.Handler
	url     string
}

const declared = "0123456789abcdef"

func newYard(t *testing.T, change ...func(*serverremote.Options)) *yard {
	t.Helper()
	y := &yard{T: t, inner: fake.New(faked.Options())}
	set, err := provider.New(y.inner)
	must(t, err)
	o := serverremote.Options{Providers: set, Instances: func(i string) bool { return i == declared }}
	for _, c := range change {
		c(&o)
	}
	y.handler = serverremote.NewWalls(o)
	t.Cleanup(func() { y.handler.Close() })
	s := httptest.NewServer(y.handler)
	t.Cleanup(s.Close)
	y.url = s.URL
	y.remote = y.as("")
	return y
}

// as is the served wall as an agent's client has it.
func (y *yard) as(agent string) *sdk.Provider {
	y.Helper()
	c, err := sdk.NewAPI(y.url, sdk.APIOptions{Agent: agent})
	must(y, err)
	y.Cleanup(func() { c.Close() })
	p, err := sdk.OpenProvider(y.Context(), c, "", sdk.ProviderOptions{})
	must(y, err)
	return p
}

func (y *yard) code(what string, err error, want sandbox.Code) {
	y.Helper()
	if sandbox.CodeOf(err) != want {
		y.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestWhoseSandboxes holds that what belongs to an instance which the daemon
// was not told of is seen and not touched.
func TestWhoseSandboxes(t *testing.T) {
	y := newYard(t)
	foreign := faked.Spec("foreign")
	foreign.Owner.Instance = "fedcba9876543210"
	_, err := y.remote.Create(t.Context(), foreign)
	y.code("create", err, sandbox.CodePermissionDeny)
	_, err = y.inner.Create(t.Context(), foreign)
	must(t, err)
	for name, do := range map[string]func() error{
		"open":    func() error { _, err := y.remote.Open(t.Context(), foreign); return err },
		"remove":  func() error { return y.remote.Remove(t.Context(), foreign.Name) },
		"pause":   func() error { return y.remote.Pause(t.Context(), foreign.Name) },
		"unpause": func() error { return y.remote.Unpause(t.Context(), foreign.Name) },
	} {
		y.code(name, do(), sandbox.CodePermissionDeny)
	}
	// A Spec that says the right instance and another's name is the provider's
	// to refuse.
	liar := foreign
	liar.Owner.Instance = declared
	_, err = y.remote.Open(t.Context(), liar)
	y.code("open by a lie", err, sandbox.CodePermissionDeny)
	info, err := y.remote.Inspect(t.Context(), foreign.Name)
	if err != nil || info.Status != sandbox.StatusRunning || info.Owner != foreign.Owner {
		t.Errorf("inspect: %+v, %v", info, err)
	}
	if list, err := y.remote.List(t.Context(), sandbox.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	other := faked.Spec("other")
	other.Provider = "docker"
	_, err = y.remote.Create(t.Context(), other)
	y.code("a spec for another provider", err, sandbox.CodeValidation)
}

// TestNamesAreNames holds that a name is one, whatever it holds.
func TestNamesAreNames(t *testing.T) {
	y := newYard(t)
	for _, name := range []string{"", "..", "../calls/x", "a/b", "a?name=b", "a%2fb", "a\x00b", "\xff", strings.Repeat("a", 4000)} {
		if _, err := y.remote.Inspect(t.Context(), name); !sandbox.IsNotFound(err) && sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("inspect of %.20q: %v", name, err)
		}
	}
}

// TestHandlesEnd holds that a handle is worth nothing to who does not hold its
// socket, and ends with the daemon: nothing runs on.
func TestHandlesEnd(t *testing.T) {
	y := newYard(t)
	s := faked.Spec("a")
	_, err := y.remote.Create(t.Context(), s)
	must(t, err)
	sb, err := y.remote.Open(t.Context(), s)
	must(t, err)
	p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sleep", "1000"}})
	must(t, err)
	l, err := sb.(sandbox.Listener).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	inside, err := sb.(sandbox.Dialer).Dial(t.Context(), "tcp", l.Addr().String())
	must(t, err)
	outside, err := l.Accept()
	must(t, err)
	for _, path := range []string{"usage", "dial?network=tcp&addr=127.0.0.1:80", "listen?network=tcp&addr=127.0.0.1:0", "files/stat?path=/workspace", "files/content?path=/etc/passwd"} {
		for _, id := range []string{"x", strings.Repeat("0", 32), "..%2F..", "%00"} {
			a, err := http.Get(y.url + "/v1/walls/handles/" + id + "/" + path)
			must(t, err)
			b, err := io.ReadAll(a.Body)
			must(t, err)
			a.Body.Close()
			if a.StatusCode < 400 || a.StatusCode == http.StatusInternalServerError || strings.Contains(string(b), "SANDBOX.NOT_FOUND") {
				t.Errorf("%s of handle %s: %d %s", path, id, a.StatusCode, b)
			}
		}
	}
	must(t, y.handler.Close())
	if exit, err := p.Wait(); err == nil && exit.Code == 0 {
		t.Errorf("a command of a daemon that has ended succeeded: %+v", exit)
	}
	if n := len(y.inner.Engine().Processes(s.Name)); n != 0 {
		t.Errorf("%d processes run on", n)
	}
	for what, use := range map[string]func() error{
		"a listener":       func() error { _, err := l.Accept(); return err },
		"a connection":     func() error { _, err := outside.Read(make([]byte, 1)); return err },
		"what was dialled": func() error { _, err := inside.Read(make([]byte, 1)); return err },
	} {
		if use() == nil {
			t.Errorf("%s goes on", what)
		}
	}
	testenv.Until(t, "a start through a handle that has ended is refused", func() bool {
		_, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"true"}})
		return sandbox.CodeOf(err) == sandbox.CodeUnavailable
	})
	_, err = y.remote.Open(t.Context(), s)
	y.code("open of a daemon that has ended", err, sandbox.CodeUnavailable)
	must(t, sb.Close())
}
