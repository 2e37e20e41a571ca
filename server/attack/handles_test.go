package attack

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// elsewhere is an orchestrator on another machine, which has a sandbox open and
// a listener inside.
type elsewhere struct {
	wall  *wall.Wall
	inner net.Listener
}

func newElsewhere(t *testing.T) *elsewhere { return &elsewhere{wall: wall.New(t)} }

// begin makes the sandbox, opens it and listens.
func (e *elsewhere) begin(w *world) {
	t := w.t
	s := e.wall.Spec("elsewhere")
	// The guest's socket would be in a folder of this machine's orchestrator.
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	w.ids["far"] = s.Name
	is[stream.Box](t, w.send("", "POST", stream.Prefix+"/providers/docker/sandboxes", text(t, stream.SpecOf(s))), 200)
	talk := stream.NewTalk(e.socket(w, stream.Prefix+"/providers/docker/open"), stream.Options{})
	t.Cleanup(func() { talk.End(false) })
	must(t, talk.Send(stream.SpecOf(s)))
	ctx, done := context.WithTimeout(t.Context(), 2*time.Minute)
	defer done()
	var o stream.Opened
	must(t, talk.Receive(ctx, &o))
	if o.Error != nil || !o.Listen {
		t.Fatalf("%+v", o)
	}
	w.ids["handle"] = o.Handle
	l, err := stream.OpenForward(ctx, t.Context(), e.socket(w, stream.Prefix+"/handles/"+o.Handle+"/listen?network=tcp&addr=127.0.0.1:0"), stream.Options{})
	must(t, err)
	e.inner, w.ids["at"] = l, l.Addr().String()
}

// socket opens a WebSocket as the admin.
func (e *elsewhere) socket(w *world, path string) *websocket.Conn {
	ctx, done := context.WithTimeout(w.t.Context(), time.Minute)
	defer done()
	conn, _, err := websocket.Dial(ctx, "ws://sandbox"+path, &websocket.DialOptions{HTTPClient: w.admin})
	must(w.t, err)
	w.t.Cleanup(func() { conn.CloseNow() })
	return conn
}

// untouched holds that no connection but the owner's has arrived at the
// listener.
func (e *elsewhere) untouched(w *world) {
	c := stream.NewConn(e.socket(w, stream.Prefix+"/handles/"+w.ids["handle"]+"/dial?network=tcp&addr="+w.ids["at"]), e.inner.Addr())
	defer c.Close()
	_, err := io.WriteString(c, "owner")
	must(w.t, err)
	in, err := e.inner.Accept()
	must(w.t, err)
	defer in.Close()
	must(w.t, in.SetReadDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, 5)
	if n, err := io.ReadFull(in, got); string(got[:n]) != "owner" {
		w.t.Errorf("the first who comes in at the listener says %q, %v", got[:n], err)
	}
}

// handles returns attempts on what a remote orchestrator has open, by tenants
// and sessions that know all its names.
func handles() []attempt {
	const handle = stream.Prefix + "/handles/{handle}"
	var out []attempt
	for _, as := range []string{"a", "a-session", "a-child", "a-agent", "b"} {
		try := func(name, path string, okay int, header []string) {
			out = append(out, attempt{name: name + " as " + as, ask: ask{as: as, path: path, header: header}, want: []int{403}, right: ask{as: "admin"}, okay: []int{okay}})
		}
		const free = handle + "/listen?network=tcp&addr=127.0.0.1:0"
		try("listen in a sandbox of an orchestrator", free, 101, upgrade())
		try("listen at a socket in it", handle+"/listen?network=unix&addr=/tmp/"+as+".sock", 101, upgrade())
		try("listen where the orchestrator does", handle+"/listen?network=tcp&addr={at}", 101, upgrade())
		out[len(out)-1].right.path = free // there it is in use, for everybody
		try("dial at its listener", handle+"/dial?network=tcp&addr={at}", 101, upgrade())
		try("what it uses", handle+"/usage", 200, []string{})
		try("read a file through it", handle+"/files/stat?path=/workspace", 200, []string{})
		try("open it", stream.Prefix+"/providers/docker/open", 101, upgrade())
		try("tell of it by its wall", stream.Prefix+"/providers/docker/sandbox?name={far}", 200, []string{})
		try("list what orchestrators have", stream.Prefix+"/providers/docker/sandboxes", 200, []string{})
	}
	return out
}

// noHandles holds that an existing handle and one that never existed are refused
// with the same text.
func (w *world) noHandles(t *testing.T) {
	never := strings.Repeat("0", len(w.ids["handle"]))
	for _, path := range []string{"/listen?network=tcp&addr=127.0.0.1:0", "/dial?network=tcp&addr={at}", "/usage"} {
		one, _ := w.does(ask{as: "a", path: stream.Prefix + "/handles/{handle}" + path, header: upgrade()})
		two, _ := w.does(ask{as: "a", path: stream.Prefix + "/handles/" + never + path, header: upgrade()})
		cut := func(s said) string {
			before, _, _ := strings.Cut(s.body, `"requestId"`)
			return before
		}
		if one.status != http.StatusForbidden || two.status != one.status || cut(one) != cut(two) {
			t.Errorf("%s: %d %s, and %d %s", path, one.status, one.body, two.status, two.body)
		}
	}
}

// noHost holds that not even an admin runs a command on the host: what the
// daemon has for its own sessions without a sandbox is not served.
func (w *world) noHost(t *testing.T) {
	for name, want := range map[string]int{"host": 422, "docker": 101} {
		if got, _ := w.does(ask{as: "admin", path: stream.Prefix + "/providers/" + name + "/open", header: upgrade()}); got.status != want {
			t.Errorf("opening something of %s is answered %d, want %d: %s", name, got.status, want, got.body)
		}
	}
	all := is[stream.Providers](t, w.send("", "GET", stream.Prefix+"/providers", ""), 200)
	if slices.ContainsFunc(all.Items, func(p stream.Provider) bool { return p.Name == "host" }) || len(all.Items) == 0 {
		t.Errorf("the walls are %+v", all.Items)
	}
}
