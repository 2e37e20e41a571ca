package attack_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A forwarded is a host that records the requested paths.
type forwarded struct {
	mu   sync.Mutex
	seen []string
}

// ServeHTTP implements [http.Handler].
func (a *forwarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.seen = append(a.seen, r.URL.Path)
	a.mu.Unlock()
	html("<title>arrived</title>arrived")(w, r)
}

// has reports whether the path was requested.
func (a *forwarded) has(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.seen, path)
}

func html(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprint(w, "<!doctype html>", body)
	}
}

// attacker is a host whose page /way/NAME?to=URL navigates its window or frame
// to the URL by the technique of that name, and whose other pages are empty.
func attacker() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/", html("<title>evil</title>evil"))
	m.HandleFunc("/way/{name}", func(w http.ResponseWriter, r *http.Request) {
		to := r.FormValue("to")
		body, ok := ways[r.PathValue("name")]
		if !ok {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return
		}
		escaped := strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;").Replace(to)
		html(strings.ReplaceAll(body, "{to}", escaped))(w, r)
	})
	return m
}

// ways are the techniques by which a document can navigate its window or
// frame, besides a redirect.
var ways = map[string]string{
	"script":       `<a id=a href="{to}"></a><script>location = a.href</script>`,
	"replacing":    `<a id=a href="{to}"></a><script>location.replace(a.href)</script>`,
	"meta refresh": `<meta http-equiv=refresh content="0;url={to}">`,
	"click":        `<a id=a href="{to}">x</a><script>a.click()</script>`,
	"form":         `<form id=f action="{to}"><input name=x value=y></form><script>f.submit()</script>`,
	"posted form":  `<form id=f method=post action="{to}"><input name=x value=y></form><script>f.submit()</script>`,
	"frame":        `<iframe src="{to}"></iframe>`,
	"object":       `<object data="{to}"></object>`,
	"embed":        `<embed src="{to}">`,
}

// wayNames returns the names of all techniques, in order.
func wayNames() []string {
	out := []string{"redirect"}
	for name := range ways {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// documents returns the addresses of the documents shown in pages and frames,
// without refused ones.
func (c *client) documents() (out []string) {
	c.t.Helper()
	var all struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	c.must("", "Target.getTargets", object{"filter": []object{{}}}, &all)
	type frame struct {
		Frame       struct{ URL, URLFragment, UnreachableURL string }
		ChildFrames []frame
	}
	var walk func(f frame)
	walk = func(f frame) {
		if f.Frame.UnreachableURL == "" {
			out = append(out, f.Frame.URL)
		}
		for _, child := range f.ChildFrames {
			walk(child)
		}
	}
	for _, info := range all.TargetInfos {
		if info.Type != "page" && info.Type != "iframe" && info.Type != "webview" {
			continue
		}
		var a struct{ SessionID string }
		if c.call("", "Target.attachToTarget", object{"targetId": info.TargetID, "flatten": true}, &a) != nil {
			continue // gone meanwhile
		}
		var tree struct{ FrameTree frame }
		if c.call(a.SessionID, "Page.getFrameTree", nil, &tree) == nil {
			walk(tree.FrameTree)
		}
		_ = c.call("", "Target.detachFromTarget", object{"sessionId": a.SessionID}, nil)
	}
	return out
}

// empty closes every page but those of the browser's own.
func (c *client) empty(t testing.TB) {
	t.Helper()
	var all struct {
		TargetInfos []struct{ TargetID, URL, Type string }
	}
	c.must("", "Target.getTargets", nil, &all)
	for _, info := range all.TargetInfos {
		if info.Type == "page" && info.URL != "about:blank" && !strings.HasPrefix(info.URL, "chrome:") {
			c.closePage(info.TargetID)
		}
	}
}
