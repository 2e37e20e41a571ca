package page

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// paused is the event for a request for a file of the workspace.
const paused = `{"requestId":"R","frameId":"T","resourceType":"Document","request":{"url":"http://workspace.invalid/secret.txt","method":"GET","headers":{"Referer":"http://workspace.invalid/a.html"},"initialPriority":"High","referrerPolicy":"origin"}}`

// shows is the main frame, showing a file of the workspace.
const shows = `{"frame":{"id":"T","loaderId":"L1","url":"http://workspace.invalid/a.html","domainAndRegistry":"","securityOrigin":"x","mimeType":"text/html","secureContextType":"Secure","crossOriginIsolatedContextType":"NotIsolated","gatedAPIFeatures":[]},"type":"Navigation"}`

// got reports whether one of the files served contains text.
func (l *liar) got(t *testing.T, text string) bool {
	t.Helper()
	for _, c := range l.commands("Fetch.fulfillRequest") {
		var p struct {
			Body []byte `json:"body"`
		}
		if err := json.Unmarshal(c.Params, &p); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(p.Body), text) {
			return true
		}
	}
	return false
}

// TestForgedEventsReadNoFiles checks that a browser under an attacker's
// control cannot get a file of the workspace by reporting pages that were
// never opened.
func TestForgedEventsReadNoFiles(t *testing.T) {
	const failed, fulfilled = "Fetch.failRequest", "Fetch.fulfillRequest"
	t.Run("nothing was opened", func(t *testing.T) {
		l := newLiar(t)
		l.file(t, "secret.txt", "the secret")
		l.open(t)
		l.event("Page.frameNavigated", shows)
		for _, kind := range []string{"Document", "Image"} {
			l.event("Fetch.requestPaused", strings.Replace(paused, `"Document"`, `"`+kind+`"`, 1))
		}
		l.await(t, 2, failed, fulfilled)
		if l.got(t, "the secret") {
			t.Error("the file was handed over")
		}
	})
	t.Run("a page of the web after a file", func(t *testing.T) {
		l := newLiar(t)
		l.file(t, "a.html", "mine")
		l.file(t, "secret.txt", "the secret")
		s := l.open(t)
		l.answers["Page.navigate"] = `"result":{"frameId":"T","loaderId":"L1","errorText":"net::ERR_FAILED"}`
		open := func(address string) { _, _ = s.Navigate(t.Context(), address) }
		s.tab.set(func(s *state) { s.local = true }) // as after opening a file
		open("http://site.test/")
		l.event("Page.frameNavigated", shows)
		l.event("Fetch.requestPaused", strings.Replace(paused, `"Document"`, `"Image"`, 1))
		l.await(t, 1, failed, fulfilled)
		if l.got(t, "the secret") {
			t.Error("the file was handed over")
		}
	})
	t.Run("a file that we open", func(t *testing.T) {
		l := newLiar(t)
		l.file(t, "secret.txt", "the secret")
		s := l.open(t)
		l.answers["Page.navigate"] = ""
		go func() { _, _ = s.Navigate(t.Context(), "./secret.txt") }()
		l.await(t, 1, "Page.navigate")
		l.event("Fetch.requestPaused", paused)
		l.await(t, 1, failed, fulfilled)
		if !l.got(t, "the secret") {
			t.Error("the file was not handed over")
		}
	})
}

// TestLiesAreBounded checks that answers of a browser cost no more than was
// asked for.
func TestLiesAreBounded(t *testing.T) {
	picture := func(width, height int) string {
		// The head of a PNG, which tells its size, is all that is read of it.
		head := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
		head = append(head, byte(width>>24), byte(width>>16), byte(width>>8), byte(width), byte(height>>24), byte(height>>16), byte(height>>8), byte(height))
		head = append(head, 8, 6, 0, 0, 0)
		return `"result":{"data":"` + base64.StdEncoding.EncodeToString(pngChunk(head)) + `"}`
	}
	t.Run("a picture of more pixels than allowed", func(t *testing.T) {
		l := newLiar(t)
		l.answers["Page.captureScreenshot"] = picture(60000, 60000)
		_, err := l.open(t).Screenshot(t.Context(), browser.Shot{Width: 100, Height: 100})
		if code := sandbox.CodeOf(err); code != sandbox.CodeBudgetExceeded {
			t.Error(err)
		}
	})
	t.Run("a picture as it was asked for", func(t *testing.T) {
		l := newLiar(t)
		l.answers["Page.captureScreenshot"] = picture(100, 100)
		p, err := l.open(t).Screenshot(t.Context(), browser.Shot{Width: 100, Height: 100})
		if err != nil || p.Width != 100 {
			t.Error(p.Width, err)
		}
	})
	t.Run("more links than asked for", func(t *testing.T) {
		l := newLiar(t)
		links := strings.TrimSuffix(strings.Repeat(`{"text":"x","url":"http://site.test/"},`, 5000), ",")
		l.answers["Runtime.callFunctionOn"] = `"result":{"result":{"type":"object","value":{"url":"","title":"","text":"","links":[` + links + `],"more":false}}}`
		c, err := l.open(t).Extract(t.Context(), browser.Extraction{Links: true, MaxLinks: 7})
		if err != nil || len(c.Links) != 7 || !c.Truncated {
			t.Error(len(c.Links), c.Truncated, err)
		}
	})
	t.Run("an error of many words", func(t *testing.T) {
		l := newLiar(t)
		l.answers["Page.printToPDF"] = `"error":{"code":1,"message":"` + strings.Repeat(`\u001b[31mred`, 10000) + `"}`
		_, err := l.open(t).PDF(t.Context())
		if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.300q", err)
		}
	})
}

// TestLargeFilesTakeTurns checks that a page that requests many large files at
// once has only one of them in this process's memory.
func TestLargeFilesTakeTurns(t *testing.T) {
	l := newLiar(t)
	for _, name := range []string{"a", "b", "c"} {
		l.file(t, name, strings.Repeat(name, largeFile+1))
	}
	l.file(t, "small", "x")
	s := l.openWith(t, Options{brief: time.Minute})            // for which each stays under way
	s.tab.set(func(s *state) { s.mine, s.local = true, true }) // as after opening a file
	l.answers["Fetch.fulfillRequest"] = ""                     // so that each stays
	for _, name := range []string{"a", "b", "c", "small"} {
		e := strings.Replace(paused, "secret.txt", name, 1)
		l.event("Fetch.requestPaused", strings.Replace(e, `"Document"`, `"Image"`, 1))
	}
	l.await(t, 2, "Fetch.fulfillRequest")
	bytes := 0
	for _, c := range l.commands("Fetch.fulfillRequest") {
		bytes += len(c.Params)
	}
	if bytes > 2*largeFile {
		t.Errorf("%d bytes are under way", bytes)
	}
}

// TestSessionsKeepTheirPlace checks that an attach event with the id of an
// existing session, or without one, replaces no session.
func TestSessionsKeepTheirPlace(t *testing.T) {
	l := newLiar(t)
	s := l.open(t)
	for _, id := range []string{"", "S", strings.Repeat("x", maxID+1)} {
		l.event("Target.attachedToTarget", `{"sessionId":"`+id+`","waitingForDebugger":true,"targetInfo":{"targetId":"X","type":"worker","title":"","url":"","attached":true,"canAccessOpener":false}}`)
	}
	l.event("Target.attachedToTarget", `{"sessionId":"W","waitingForDebugger":true,"targetInfo":{"targetId":"X","type":"worker","title":"","url":"","attached":true,"canAccessOpener":false}}`)
	l.await(t, 1, "Runtime.runIfWaitingForDebugger")
	s.tab.mu.Lock()
	defer s.tab.mu.Unlock()
	if len(s.tab.children) != 1 || s.tab.children["W"] == "" {
		t.Errorf("children: %v", s.tab.children)
	}
}

// TestTreesAreReadInPart checks that a list of empty nodes takes no more
// memory than one of full nodes.
func TestTreesAreReadInPart(t *testing.T) {
	nodes, more, err := readTree([]byte(`{"nodes":[` + strings.TrimSuffix(strings.Repeat("{},", rawNodes+5), ",") + `]}`))
	if err != nil || !more || len(nodes) != rawNodes {
		t.Error(len(nodes), more, err)
	}
	for _, bad := range []string{"", "null", "[]", `{"x":[]}`, `{"nodes":{}}`, `{"nodes":[1]}`} {
		if _, _, err := readTree([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestOpeningFailsForAReason checks that the error of a session that cannot be
// opened contains the cause.
func TestOpeningFailsForAReason(t *testing.T) {
	l := newLiar(t)
	l.answers["Target.createTarget"] = `"error":{"code":1,"message":"no room"}`
	_, err := Open(t.Context(), l, browser.Rights{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
}

// TestNonsenseIsSurvived checks that senseless events of every handled kind
// end neither the session nor this program.
func TestNonsenseIsSurvived(t *testing.T) {
	l := newLiar(t)
	l.settings.Limits.Navigation = time.Second
	s := l.open(t)
	params := []string{
		`null`, `[]`, `1`, `"x"`, `{}`, `{"request":null,"frame":null,"response":null,"targetInfo":null}`,
		`{"requestId":"","frameId":"T","request":{},"resourceType":"Document"}`,
		`{"frame":{"id":"","url":"::"},"targetInfo":{},"sessionId":"N","requestId":"R","loaderId":"R","frameId":"T","response":{},"type":"beforeunload"}`,
		`{"guid":"a","totalBytes":1e308,"receivedBytes":-1,"state":"completed","dataLength":-9223372036854775808,"encodedDataLength":9223372036854775807}`,
	}
	for _, method := range []string{
		"Fetch.requestPaused", "Fetch.authRequired", "Page.javascriptDialogOpening", "Target.attachedToTarget", "Target.detachedFromTarget",
		"Network.dataReceived", "Page.frameNavigated", "Page.navigatedWithinDocument", "Page.lifecycleEvent", "Network.responseReceived",
		"Browser.downloadWillBegin", "Browser.downloadProgress", "x", "",
	} {
		for _, p := range params {
			if method == "Network.dataReceived" && strings.Contains(p, "9223372036854775807") {
				continue // it says that the page is too large
			}
			l.event(method, p)
			l.say(map[string]any{"method": method}, `"params":`+p)
		}
	}
	for _, rest := range []string{`"id":0`, `"id":-1,"result":null`, `"id":9999999,"error":{}`, `"id":1,"result":{}`, `"sessionId":null`, `"error":null`} {
		l.say(map[string]any{"x": 1}, rest)
	}
	l.mu.Lock()
	l.answers["Runtime.callFunctionOn"] = `"result":{"result":{"type":"boolean","value":false}}`
	l.mu.Unlock()
	err := s.Wait(t.Context(), browser.Condition{Text: "x", Timeout: time.Minute}) // one of them is an address that is refused
	if code := sandbox.CodeOf(err); code != sandbox.CodeValidation || s.wire.reason() != nil {
		t.Error(err, s.wire.reason())
	}
	// Answers of every form do not end the program either.
	for _, answer := range []string{`"result":null`, `"result":[]`, `"result":{"result":null}`, `"result":{"quads":[[1,2]],"cssContentSize":null,"data":"eA==","nodes":[null],"result":{"type":"x"}}`, `"error":{}`, `"x":1`} {
		for _, method := range []string{"Runtime.callFunctionOn", "Page.captureScreenshot", "Page.getLayoutMetrics", "Page.printToPDF", "IO.read", "Accessibility.getFullAXTree", "Page.navigate"} {
			l.mu.Lock()
			l.answers = map[string]string{method: answer}
			l.mu.Unlock()
			_, _ = s.Screenshot(t.Context(), browser.Shot{Full: true})
			_, _ = s.Extract(t.Context(), browser.Extraction{Text: true, Links: true, Tree: true})
			_, _ = s.PDF(t.Context())
			_ = s.Click(t.Context(), "a")
		}
	}
}

// pngChunk adds the checksum to a head whose length field says 13.
func pngChunk(head []byte) []byte {
	return binary.BigEndian.AppendUint32(head, crc32.ChecksumIEEE(head[12:]))
}
