package attack_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
)

// keeping writes to every storage of a page.
const keeping = `(async () => {
	document.cookie = 'kept=yes; max-age=1000';
	localStorage.kept = 'yes';
	sessionStorage.kept = 'yes';
	await new Promise(done => { const q = indexedDB.open('kept', 1); q.onsuccess = () => { q.result.close(); done() } });
	document.getElementById('out').textContent = 'kept it' })()`

// looking returns what is stored.
const looking = `(async () => {
	const found = [];
	if (document.cookie) found.push('cookie');
	if (localStorage.kept) found.push('localStorage');
	if (sessionStorage.kept) found.push('sessionStorage');
	if ((await indexedDB.databases()).length) found.push('indexedDB');
	document.getElementById('out').textContent = 'found: ' + found.join(' ') + '.' })()`

// TestScopesAndSessionsApart checks that data stored by a page is visible only
// in the same session.
func TestScopesAndSessionsApart(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	var mu sync.Mutex
	cached := 0
	var sent []string // cookies
	counts := func() (int, []string) {
		mu.Lock()
		defer mu.Unlock()
		return cached, slices.Clone(sent)
	}
	r.net.Handle(evil, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		script := looking
		switch q.URL.Path {
		case "/cached":
			cached++
			w.Header().Set("Cache-Control", "max-age=1000")
			fmt.Fprint(w, "cached")
			return
		case "/keep":
			script = keeping
		case "/look":
		default:
			http.NotFound(w, q) // its icon
			return
		}
		sent = append(sent, q.Header.Get("Cookie"))
		html(`<p id=out></p><img src=/cached><script>`+script+`</script>`)(w, q)
	}))
	one, two := r.of("a", evil), r.of("b", evil)
	s := r.session(t, one, false)
	says := func(t *testing.T, s browser.Session, path, want string) {
		t.Helper()
		must(t, visit(t, s, r.net.URL("http", evil, path)))
		if err := s.Wait(patient(t), browser.Condition{Text: want}); err != nil {
			c, _ := s.Extract(patient(t), browser.Extraction{Text: true})
			t.Errorf("%v: %q", err, c.Text)
		}
	}
	says(t, s, "/keep", "kept it")
	t.Run("control/same session", func(t *testing.T) { says(t, s, "/look", "found: cookie localStorage sessionStorage indexedDB.") })
	if loads, cookies := counts(); loads != 1 || len(cookies) != 2 || cookies[1] != "kept=yes" {
		t.Errorf("the control: loaded %d times, cookies %q", loads, cookies)
	}
	for name, req := range map[string]display.Request{"another session": one, "another scope": two} {
		t.Run(name, func(t *testing.T) {
			before, _ := counts()
			other := r.session(t, req, false)
			says(t, other, "/look", "found: .")
			if loads, cookies := counts(); loads != before+1 || cookies[len(cookies)-1] != "" {
				t.Errorf("loaded %d times, cookies %q", loads-before, cookies)
			}
		})
	}
	t.Run("client of the same scope", func(t *testing.T) {
		c := r.client(t, one)
		_, page := c.page(r.net.URL("http", evil, "/look"))
		c.shows(page, "found: .")
	})
	must(t, s.Close())
	t.Run("session after the end", func(t *testing.T) { says(t, r.session(t, one, false), "/look", "found: .") })
	t.Run("port of another scope", func(t *testing.T) {
		here, there := r.inside(t, one), r.inside(t, two)
		k := newCanary(t, there)
		if conn, err := here.Dial(patient(t), "tcp", "127.0.0.1:"+itoa(k.port)); err == nil {
			conn.Close()
			t.Error("it is reached")
		}
		k.sings()
	})
	t.Run("files of another scope", func(t *testing.T) {
		here, there := r.inside(t, one), r.inside(t, two)
		sh(t, there, "echo theirs >/tmp/theirs")
		if got := sh(t, here, "cat /tmp/theirs 2>&1 || true"); !strings.Contains(got, "No such file") {
			t.Errorf("it is read: %q", got)
		}
		if got := sh(t, there, "cat /tmp/theirs"); got != "theirs" {
			t.Errorf("the control: %q", got)
		}
	})
}
