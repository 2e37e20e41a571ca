package server

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// withBrowsers are settings in which every session may have a browser, with a
// display, and agents may use it.
const withBrowsers = `{
  "agents": {"defaults": {"sandbox": {
    "provider": "docker", "docker": {"memory": "1g"}, "tools": {"alsoAllow": ["browser"]},
    "browser": {"enabled": true, "headless": false, "enableNoVnc": true, "allowDownloads": true, "autoStartTimeout": "90s"}
  }}},
  "daemon": {"drainTimeout": "5s"}
}`

// pageOf is a page of the workspace, with the elements that actions use.
const pageOf = `<title>page of %</title><p id=p>%</p><input id=i><input type=file id=f><a id=a href="data:," download=d>down</a><button id=b onclick="p.textContent='pressed'">b</button>`

// newBrowserWorld returns a world in which both tenants have a browser: that of
// B shows a secret, has its display open, and is connected to a program.
func newBrowserWorld(t *testing.T) *world {
	testenv.Require(t, "browser")
	w := &world{fixture: openAttack(t, withBrowsers), tokens: map[string]string{"none": "none", "admin": ""}, ids: map[string]string{}, hidden: map[string]string{}}
	w.people()
	w.ids["box"], w.ids["mine"] = w.made("b", `{"session":"`+sessionB+`"}`), w.made("a", `{"session":"mine"}`)
	w.exec(w.tokens["b"], w.ids["box"], "echo '"+strings.ReplaceAll(strings.ReplaceAll(pageOf, "%", secret), "'", `'\''`)+"' > secret.html; mkdir down")
	theirs := w.workspaceOf("secret.html")
	w.exec(w.tokens["a"], w.ids["mine"], "echo '"+strings.ReplaceAll(strings.ReplaceAll(pageOf, "%", "mine"), "'", `'\''`)+"' > page.html; mkdir down; "+
		"ln -s "+theirs+"/secret.html theirs.html; ln -s "+theirs+" folder; ln -s ../"+filepath.Base(theirs)+"/secret.html beside.html")
	w.ids["folder"] = theirs
	for who, box := range map[string]string{"a": "mine", "b": "box"} {
		reported := is[api.Browser](t, w.send(w.tokens[who], "POST", "/v1/sandboxes/"+w.ids[box]+"/browser", `{"watch":true,"cdp":true}`), 200)
		w.ids["browser of "+who], w.ids["bridge of "+who] = reported.Name, reported.CDPURL
		u, err := url.Parse(reported.CDPURL)
		must(t, err)
		w.ids["port of "+who], w.ids["at "+who] = u.Port(), u.Host
		w.ids["key of "+who], w.ids["page of "+who], _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		w.linked(who, reported.WatchURL)
	}
	w.drive("b", "box", "navigate", `{"url":"./secret.html"}`)
	w.drive("a", "mine", "navigate", `{"url":"./page.html"}`)
	out, err := exec.Command("docker", "inspect", "--format", "{{.Id}} {{.State.Pid}}", w.ids["browser of b"]).Output()
	must(t, err)
	id, _, _ := strings.Cut(string(out), " ")
	w.hidden = map[string]string{
		"the secret": secret, "the tenant": victim, "the session": sessionB, "a folder of the host": w.state, "the container": id,
		"the browser": w.ids["browser of b"], "the key of the bridge": w.ids["key of b"], "the sandbox": w.ids["box"],
	}
	return w
}

// workspaceOf returns the folder of the host with a file of that name.
func (w *world) workspaceOf(file string) string {
	found, err := filepath.Glob(filepath.Join(w.state, "workspaces", "*", file))
	must(w.t, err)
	if len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(w.state, "workspaces", "*", "*", file))
		must(w.t, err)
	}
	if len(found) != 1 {
		w.t.Fatalf("%s is at %q", file, found)
	}
	return filepath.Dir(found[0])
}

// An answered is the result of an action.
type answered struct {
	Page    *browser.Page    `json:"page"`
	Content *browser.Content `json:"content"`
	Data    []byte           `json:"data"`
}

func (w *world) drive(as, box, action, body string) answered {
	w.t.Helper()
	return is[answered](w.t, w.send(w.tokens[as], "POST", "/v1/sandboxes/"+w.ids[box]+"/browser/"+action, body), 200)
}

// onBrowsers returns attempts over the routes of browsers, by the name of B's
// sandbox and by that of its browser.
func onBrowsers() []attempt {
	gone, no := []int{404}, []int{403}
	const b, own = "/v1/sandboxes/{box}/browser", "/v1/sandboxes/{mine}/browser"
	act := func(action, body string) attempt {
		return attempt{name: action + " in B's", ask: ask{as: "a", method: "POST", path: b + "/" + action, body: body}, want: gone}
	}
	visit := func(name, address string, want ...int) attempt {
		if want == nil {
			want = no
		}
		return attempt{name: "open " + name, ask: ask{as: "a", method: "POST", path: own + "/navigate", body: `{"url":"` + address + `"}`}, want: want, right: ask{as: "a", body: `{"url":"./page.html"}`}}
	}
	container := func(name, method, path, body string, right ask) attempt {
		return attempt{name: name + " B's browser by its own name", ask: ask{as: "a", method: method, path: "/v1/sandboxes/{browser of b}" + path, body: body}, want: gone, right: right}
	}
	upload := func(name, file string) attempt {
		return attempt{name: "upload " + name, ask: ask{as: "a", method: "POST", path: own + "/upload", body: `{"selector":"#f","files":["` + file + `"]}`}, want: no, right: ask{as: "a", body: `{"selector":"#f","files":["./page.html"]}`}}
	}
	download := func(name, folder string) attempt {
		return attempt{name: "download to " + name, ask: ask{as: "a", method: "POST", path: own + "/download", body: `{"selector":"#a","path":"` + folder + `"}`}, want: []int{403, 422}, right: ask{as: "a", path: own + "/click", body: `{"selector":"#b"}`}}
	}
	return []attempt{
		{name: "list B's", ask: ask{as: "a", path: b}, want: gone},
		{name: "bring B's up", ask: ask{as: "a", method: "POST", path: b, body: `{}`}, want: gone},
		{name: "bring B's up to look at it", ask: ask{as: "a", method: "POST", path: b, body: `{"watch":true}`}, want: gone, right: ask{body: `{}`}},
		{name: "bring B's up for a program", ask: ask{as: "a", method: "POST", path: b, body: `{"cdp":true}`}, want: gone},
		{name: "remove B's", ask: ask{as: "a", method: "DELETE", path: b}, want: gone, right: ask{method: "GET"}},
		{name: "remove B's by force", ask: ask{as: "a", method: "DELETE", path: b + "?force=true"}, want: gone, right: ask{method: "GET", path: b}},
		{name: "list B's in B's name", ask: ask{as: "a", path: b, header: []string{"Sandbox-Tenant", victim}}, want: no},
		{name: "list B's with a session of the same name", ask: ask{as: "a-child", path: b}, want: gone, right: ask{as: "b-session"}},
		{name: "look at B's with a session of the same name", ask: ask{as: "a-child", method: "POST", path: b + "/extract"}, want: gone, right: ask{as: "b-session"}},
		{name: "look at B's with another session of B", ask: ask{as: "b-other", method: "POST", path: b + "/extract"}, want: gone, right: ask{as: "b-session"}},
		{name: "let a program into B's with another session of B", ask: ask{as: "b-other", method: "POST", path: b, body: `{"cdp":true}`}, want: gone, right: ask{as: "b-session"}},
		{name: "look at B's with a token that was taken back", ask: ask{as: "b-revoked", method: "POST", path: b + "/extract"}, want: []int{401}},
		{name: "look at B's with a token that has expired", ask: ask{as: "b-expired", method: "POST", path: b + "/extract"}, want: []int{401}},
		act("navigate", `{"url":"./secret.html"}`), act("screenshot", ""), act("extract", `{"parts":["text","links","tree"]}`), act("pdf", ""),
		act("wait", `{"selector":"#p"}`), act("click", `{"selector":"#i"}`), act("type", `{"selector":"#i","text":"x"}`), act("upload", `{"selector":"#f","files":["./secret.html"]}`),
		{name: "download in B's", ask: ask{as: "a", method: "POST", path: b + "/download", body: `{"selector":"#a","path":"down"}`}, want: gone, right: ask{path: b + "/click", body: `{"selector":"#p"}`}},
		{name: "close the page in B's", ask: ask{as: "a", method: "POST", path: b + "/close"}, want: gone, right: ask{path: b + "/extract"}},
		{name: "the tool on B's", ask: ask{as: "a", method: "POST", path: "/v1/sandboxes/{box}/tools/browser", body: `{"action":"extract"}`}, want: gone, right: ask{as: "b-session"}},
		container("tell of", "GET", "", "", ask{}), container("run in", "POST", "/exec", `{"line":"true"}`, ask{}), container("read", "GET", "/files/workspace/secret.html", "", ask{}),
		container("freeze", "POST", "/pause", "", ask{method: "GET", path: "/v1/sandboxes/{browser of b}"}), container("remove", "DELETE", "?force=true", "", ask{method: "GET", path: "/v1/sandboxes/{browser of b}"}),
		container("list browsers of", "GET", "/browser", "", ask{}), container("drive", "POST", "/browser/extract", "", ask{}),
		visit("B's file by a link", "./theirs.html"), visit("B's file beside one's own", "./beside.html"), visit("B's file by a folder", "./folder/secret.html"),
		visit("B's file by the host's path", "{folder}/secret.html", 403, 404, 422), visit("B's file by dots", "./../../{box}/secret.html"), visit("B's file as the host's", "file://{folder}/secret.html"),
		visit("B's file in one's own workspace", "./secret.html", 404), visit("B's bridge", "{http of b}/json/version"), visit("B's bridge by name", "http://localhost:{port of b}/{key of b}/json/version"),
		visit("B's display", "http://{watch of b}{once of b}"), visit("the daemon", "http://{host}/v1/sandboxes"), visit("one's own port of the protocol", "http://127.0.0.1:9222/json/list"),
		visit("one's own display", "http://127.0.0.1:6080/vnc.html"), visit("B's container", "http://{browser of b}:9222/json/list"), visit("B's page by its source", "view-source:http://workspace.invalid/secret.html"),
		visit("the browser's own pages", "chrome://inspect"), visit("the workspace of the browser by its address", "http://workspace.invalid/secret.html"),
		upload("B's file by a link", "./theirs.html"), upload("B's file beside one's own", "./beside.html"), upload("B's file by a folder", "./folder/secret.html"), upload("B's file by dots", "./../../{box}/secret.html"),
		download("B's folder by a link", "folder/down"), download("B's folder by dots", "../{box}/down"), download("B's folder by its path", "{folder}/down"),
	}
}

func TestBrowsersAreApart(t *testing.T) {
	t.Parallel()
	w := newBrowserWorld(t)
	w.ids["http of b"] = "http://" + w.ids["at b"] + "/" + w.ids["key of b"]
	all := onBrowsers()
	w.tries(t, all)
	t.Run("bridges", w.bridges)
	t.Run("displays", w.displays)
	t.Run("by the protocol", w.byProtocol)
	t.Run("from inside", w.fromInside)
	t.Run("lists", w.lists)
	t.Run("untouched", func(*testing.T) { w.untouchedBrowser() })
	w.controls(t, all)
	t.Run("after the token", w.afterToken)
}

// lists holds that B's browser is in B's list and in no list of A's.
func (w *world) lists(t *testing.T) {
	for _, path := range []string{"/v1/sandboxes", "/v1/sandboxes?kind=browser", "/v1/sandboxes/{mine}/browser", "/v1/listing", "/v1/usage", "/v1/evidence", "/v1/violations"} {
		got, sent := w.does(ask{as: "a", path: path})
		if what := w.tells(got, sent); got.status != 200 || what != "" {
			t.Errorf("%s: %d, it tells %s: %s", path, got.status, what, got.body)
		}
	}
	for as, want := range map[string]string{"a": "browser of a", "b": "browser of b"} {
		if got, _ := w.does(ask{as: as, path: "/v1/sandboxes?kind=browser"}); !strings.Contains(got.body, w.ids[want]) {
			t.Errorf("%s does not see its own: %s", as, got.body)
		}
	}
}

// untouchedBrowser checks that everything that B has is unchanged.
func (w *world) untouchedBrowser() {
	w.t.Helper()
	if got := w.drive("b", "box", "extract", ""); got.Content == nil || !strings.Contains(got.Content.Text, secret) || !strings.Contains(got.Content.Title, secret) {
		w.t.Errorf("B's page shows %+v", got.Content)
	}
	out, err := exec.Command("docker", "inspect", "--format", "{{.Id}}", w.ids["browser of b"]).Output()
	if err != nil || strings.TrimSpace(string(out)) != w.hidden["the container"] {
		w.t.Errorf("B's browser is another: %s %v", out, err)
	}
	entries, err := os.ReadDir(w.ids["folder"])
	must(w.t, err)
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "secret.html" }) {
		w.t.Errorf("B's files are %v", entries)
	}
	down, err := os.ReadDir(filepath.Join(w.ids["folder"], "down"))
	if err != nil || len(down) > 0 {
		w.t.Errorf("somebody has put %v there, %v", down, err)
	}
}
