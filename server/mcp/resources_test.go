package mcp_test

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	servermcp "github.com/bulkhead-dev/sandbox/server/mcp"
	"github.com/bulkhead-dev/sandbox/tools"
)

// put writes a file into the sandbox of a session.
func (r *rig) put(session, path, content string) {
	r.t.Helper()
	must(r.t, r.manager.Files(deadline(r.t), manager.Request{Who: who(session)}, func(s manager.Share) error {
		return s.Write(context.Background(), path, strings.NewReader(content), sandbox.WriteOptions{})
	}))
}

// TestResourcesAreCalls holds that requests for resources, which take time and
// memory as tools do, count among the concurrent calls.
func TestResourcesAreCalls(t *testing.T) {
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { o.Calls = 1 })
	r.put("s", "/workspace/a", "text")
	c := r.connect(bound("s"), nil)
	read := func() error {
		_, err := c.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: "sandbox:///workspace/a"})
		return err
	}
	must(t, read())
	ctx, stop := context.WithCancel(deadline(t))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // it is refused while something is read, and cancelled in the end
			_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep 1000"}})
		}
	}()
	testenv.Until(t, "a call is too many while another runs", func() bool { return read() != nil })
	if err := read(); err == nil || !strings.Contains(err.Error(), "too many calls") {
		t.Error(err)
	}
	if _, err := c.ListResources(deadline(t), nil); err == nil {
		t.Error("they are listed while a call runs")
	}
	stop()
	<-ended
	testenv.Until(t, "it is read again afterwards", func() bool { return read() == nil })
}

func TestResources(t *testing.T) {
	r := newRig(t, settingsWith(""))
	c := r.connect(bound("s"), nil)
	l, err := c.ListResources(deadline(t), nil)
	must(t, err)
	if len(l.Resources) != 0 || len(r.engine.Names()) != 0 {
		t.Fatalf("%+v, and there is %q", l.Resources, r.engine.Names())
	}
	r.put("s", "/workspace/a b.txt", "text")
	r.put("s", "/workspace/dir/ü%?#.txt", "odd")
	r.put("s", "/workspace/data", "\xff\xfe\x00binary")
	r.put("s", "/workspace/large", strings.Repeat("x", 4<<20+1))
	l, err = c.ListResources(deadline(t), nil)
	must(t, err)
	uris := map[string]int64{}
	for _, res := range l.Resources {
		uris[res.URI] = res.Size
	}
	want := map[string]string{
		"sandbox:///workspace/a%20b.txt": "text", "sandbox:///workspace/dir/%C3%BC%25%3F%23.txt": "odd", "sandbox:///workspace/data": "\xff\xfe\x00binary",
	}
	for uri, content := range want {
		if size, ok := uris[uri]; !ok || size != int64(len(content)) {
			t.Errorf("%s: %d bytes, in %v", uri, size, uris)
		}
		got, err := c.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(got.Contents) != 1 || got.Contents[0].Text+string(got.Contents[0].Blob) != content {
			t.Errorf("%s: %+v, %v", uri, got, err)
		}
	}
	if _, err := c.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: "sandbox:///workspace/large"}); err == nil || !strings.Contains(err.Error(), "4 MiB") {
		t.Errorf("%v", err)
	}
	templates, err := c.ListResourceTemplates(deadline(t), nil)
	must(t, err)
	if len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != "sandbox:///workspace/{+path}" {
		t.Errorf("%+v", templates.ResourceTemplates)
	}
	for _, uri := range []string{
		"sandbox:///workspace/none", "sandbox:///workspace/", "sandbox:///etc/passwd", "file:///etc/passwd", "sandbox:///workspace/../etc/passwd",
		"sandbox:///workspace/%2e%2e/etc/passwd", "sandbox:///workspace//etc/passwd", "sandbox:///workspace/a%00b", "sandbox:///workspace/%zz",
		"sandbox:///workspace/dir%2f..%2f..%2fetc/passwd", "sandbox://host/workspace/a", "sandbox:///workspace/%ff",
	} {
		if got, err := c.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, got.Contents[0])
		}
	}
}

// TestResourcesFollowThePolicy holds that a session without the right to read
// has no resources.
func TestResourcesFollowThePolicy(t *testing.T) {
	r := newRig(t, settingsWith(`"tools": {"deny": ["read"]}`))
	r.put("s", "/workspace/a", "text")
	c := r.connect(bound("s"), nil)
	l, err := c.ListResources(deadline(t), nil)
	must(t, err)
	if len(l.Resources) != 0 {
		t.Errorf("%+v", l.Resources)
	}
	if _, err := c.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: "sandbox:///workspace/a"}); err == nil || !strings.Contains(err.Error(), "POLICY.DENY_TOOL") {
		t.Errorf("%v", err)
	}
}

func TestListingIsBounded(t *testing.T) {
	r := newRig(t, settingsWith(""))
	must(t, r.manager.Files(deadline(t), manager.Request{Who: who("s")}, func(s manager.Share) error {
		for i := range 600 {
			if err := s.Write(context.Background(), "/workspace/f"+strconv.Itoa(i), bytes.NewReader(nil), sandbox.WriteOptions{}); err != nil {
				return err
			}
		}
		return nil
	}))
	c := r.connect(bound("s"), nil)
	l, err := c.ListResources(deadline(t), nil)
	must(t, err)
	if len(l.Resources) != 500 || l.Meta["truncated"] != true {
		t.Errorf("%d resources, %v", len(l.Resources), l.Meta)
	}
}

// TestListingTakesTurns holds that a listing of resources waits for its turn
// among the calls that scan folders of the sandbox.
func TestListingTakesTurns(t *testing.T) {
	var kits *tools.Tools
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { kits = o.Tools })
	r.put("s", "/workspace/a", "text")
	c := r.connect(bound("s"), nil)
	name, err := r.manager.Name(who("s"), nil)
	must(t, err)
	first, err := kits.Look(deadline(t), name)
	must(t, err)
	second, err := kits.Look(deadline(t), name)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if l, err := c.ListResources(ctx, nil); err == nil {
		t.Errorf("without a turn there is %+v", l)
	}
	first()
	if l, err := c.ListResources(deadline(t), nil); err != nil || len(l.Resources) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	second()
}

// TestListingGoesSoDeep holds the order of the listing, and its depth.
func TestListingGoesSoDeep(t *testing.T) {
	r := newRig(t, settingsWith(""))
	for _, name := range []string{"z", "a.txt", "a/b/c/d/e/f/g/file", "a/b/c/d/e/f/g/h/deeper"} {
		r.put("s", "/workspace/"+name, "text")
	}
	l, err := r.connect(bound("s"), nil).ListResources(deadline(t), nil)
	must(t, err)
	var got []string
	for _, res := range l.Resources {
		got = append(got, res.Name)
	}
	if want := []string{"a/b/c/d/e/f/g/file", "a.txt", "z"}; !slices.Equal(got, want) || l.Meta["truncated"] != true {
		t.Errorf("%q, %v", got, l.Meta)
	}
}
