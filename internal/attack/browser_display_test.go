package attack_test

import (
	"crypto/des" //nolint:gosec // that is what VNC speaks
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// An eye is a connection to the VNC server inside, by the bare protocol.
type eye struct {
	net.Conn
	width, height uint16
}

// errRefused reports that the server does not accept the password.
var errRefused = errors.New("the password is refused")

// look connects to the display, and sends a password.
func look(t testing.TB, c browser.Container, password string) (*eye, error) {
	t.Helper()
	var conn net.Conn
	testenv.Success(t, func() (err error) { // the browser may answer before the server does
		conn, err = c.Dial(patient(t), "tcp", "127.0.0.1:5900")
		return err
	})
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	get := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			return nil
		}
		return b
	}
	if v := get(12); !strings.HasPrefix(string(v), "RFB ") {
		return nil, errRefused
	}
	io.WriteString(conn, "RFB 003.008\n")
	n := get(1)
	if n == nil || n[0] == 0 {
		return nil, errRefused
	}
	kinds := get(int(n[0]))
	if slices.Contains(kinds, 1) {
		t.Error("the display lets in without a password")
	}
	if !slices.Contains(kinds, 2) {
		t.Fatalf("no password is asked for: %v", kinds)
	}
	conn.Write([]byte{2})
	conn.Write(answer(t, get(16), password))
	if result := get(4); result == nil || binary.BigEndian.Uint32(result) != 0 {
		return nil, errRefused
	}
	conn.Write([]byte{1}) // shared access
	head := get(24)
	if head == nil {
		return nil, errRefused
	}
	get(int(binary.BigEndian.Uint32(head[20:])))
	return &eye{conn, binary.BigEndian.Uint16(head), binary.BigEndian.Uint16(head[2:])}, nil
}

// answer encrypts the challenge as VNC does, with the bits of the password's
// bytes in reverse.
func answer(t testing.TB, challenge []byte, password string) []byte {
	t.Helper()
	if len(challenge) != 16 {
		t.Fatal("there is no challenge")
	}
	var key [8]byte
	copy(key[:], password)
	for i := range key {
		key[i] = bits.Reverse8(key[i])
	}
	block, err := des.NewCipher(key[:]) //nolint:gosec // see above
	must(t, err)
	out := make([]byte, 16)
	block.Encrypt(out, challenge)
	block.Encrypt(out[8:], challenge[8:])
	return out
}

// touch presses a button in the middle of the display and a key, and returns
// when the server has taken both.
func (e *eye) touch(t testing.TB) {
	t.Helper()
	x, y := e.width/2, e.height/2
	for _, mask := range []byte{0, 1, 0} {
		e.Write(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{5, mask}, x), y))
	}
	for _, down := range []byte{1, 0} {
		e.Write([]byte{4, down, 0, 0, 0, 0, 0, 'k'})
	}
	e.Write([]byte{3, 0, 0, 0, 0, 0, 0, 1, 0, 1}) // one pixel, whole
	if _, err := io.ReadFull(e, make([]byte, 1)); err != nil {
		t.Errorf("the server does not answer: %v", err)
	}
}

// TestDisplay holds for one browser which clients can view and control a display,
// and when.
func TestDisplay(t *testing.T) {
	t.Parallel()
	r := on(t, `"headless":false,"enableNoVnc":true`, "")
	req := r.of("a", evil)
	t.Run("clients", func(t *testing.T) { displayClients(t, r, req) })
	t.Run("forgets at once", func(t *testing.T) { displayForgetsAtOnce(t, r, req) })
}

// displayClients checks which clients can view and control a display.
func displayClients(t *testing.T, r *rig, req display.Request) {
	r.net.Handle(evil, http.HandlerFunc(html(`evil<script>window.clicks = window.keys = 0; addEventListener('mousedown', () => clicks++); addEventListener('keydown', () => keys++)</script>`)))
	c := r.client(t, req)
	_, page := c.page(r.net.URL("http", evil, "/"))
	c.shows(page, "evil")
	c.must(page, "Page.bringToFront", nil, nil)
	touched := func() bool {
		v, _ := c.eval(page, "clicks > 0 && keys > 0")
		return v == true
	}
	in := r.inside(t, req)
	refused := func(t *testing.T, password string) {
		t.Helper()
		if _, err := look(t, in, password); !errors.Is(err, errRefused) {
			t.Error("it is let in")
		}
	}
	for name, password := range map[string]string{"empty": "", "usual": "password", "zeros": "\x00\x00\x00\x00\x00\x00\x00\x00", "mark of the file": "__BEGIN_"} {
		t.Run("nobody watches/"+name, func(t *testing.T) { refused(t, password) })
	}
	w, err := r.Watch(patient(t), req, false)
	must(t, err)
	t.Run("wrong password", func(t *testing.T) { refused(t, "wrong"+w.Password[5:]+"x") })
	t.Run("beginning of the password", func(t *testing.T) { refused(t, w.Password[:7]) })
	t.Run("password to look", func(t *testing.T) {
		e, err := look(t, in, w.Password)
		must(t, err)
		e.touch(t)
		if v, ok := c.eval(page, "clicks + keys"); !ok || v != 0.0 {
			t.Errorf("it touches: %v", v)
		}
	})
	t.Run("link", func(t *testing.T) { links(t, r, w.URL) })
	old := w.Password
	must(t, w.Close())
	t.Run("after the end", func(t *testing.T) { refused(t, old) })
	w, err = r.Watch(patient(t), req, true)
	must(t, err)
	defer w.Close()
	t.Run("password of the watch before", func(t *testing.T) { refused(t, old) })
	t.Run("control/password to touch", func(t *testing.T) {
		e, err := look(t, in, w.Password)
		must(t, err)
		await(t, "it touches", func() bool { e.touch(t); return touched() })
	})
}

// links checks that the link works once, and that everything else is refused
// without its cookie.
func links(t *testing.T, r *rig, link string) {
	u, err := url.Parse(link)
	must(t, err)
	jar, err := cookiejar.New(nil)
	must(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	get := func(jar http.CookieJar, address string, change ...func(*http.Request)) int {
		q, err := http.NewRequestWithContext(patient(t), "GET", address, nil)
		must(t, err)
		for _, do := range change {
			do(q)
		}
		resp, err := (&http.Client{Jar: jar, Transport: transport}).Do(q)
		must(t, err)
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		u = resp.Request.URL
		return resp.StatusCode
	}
	header := func(name, value string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set(name, value) }
	}
	base := "http://" + u.Host
	for name, tt := range map[string]struct {
		status int
		want   int
	}{
		"no link":            {get(nil, base+"/"), 401},
		"made-up link":       {get(nil, base+"/open/AAAAAAAAAAAAAAAAAAAAAAAAAA"), 401},
		"display":            {get(nil, base+"/websockify"), 401},
		"page of noVNC":      {get(nil, base+"/vnc.html"), 401},
		"foreign name":       {get(nil, link, func(q *http.Request) { q.Host = "evil.test" }), 421},
		"foreign origin":     {get(nil, link, header("Origin", "http://evil.test")), 403},
		"another site":       {get(nil, link, header("Sec-Fetch-Site", "cross-site")), 403},
		"fetched in advance": {get(nil, link, header("Sec-Purpose", "prefetch")), 403},
		"made-up cookie":     {get(nil, base+"/vnc.html", header("Cookie", "sandbox-watch=x")), 401},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.status != tt.want {
				t.Errorf("status %d, want %d", tt.status, tt.want)
			}
		})
	}
	if got := get(jar, link); got != 200 {
		t.Fatalf("the control: the link is answered with %d", got)
	}
	shown := "http://" + u.Host + u.Path
	for name, tt := range map[string]struct{ got, want int }{
		"twice":                  {get(nil, link), 401},
		"twice, with the cookie": {get(jar, link), 401},
		"page without cookie":    {get(nil, shown), 401},
		"control/page":           {get(jar, shown), 200},
		"page with a query":      {get(jar, shown+"?x"), 400},
		"folder above":           {get(jar, strings.TrimSuffix(shown, "vnc.html")+"..%2f"), 404},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("status %d, want %d", tt.got, tt.want)
			}
		})
	}
}

// displayForgetsAtOnce checks that a password is valid from the beginning
// to the end of its watch, however short that is. The VNC server compares file
// times in seconds.
func displayForgetsAtOnce(t *testing.T, r *rig, req display.Request) {
	_, err := r.Start(patient(t), req)
	must(t, err)
	in := r.inside(t, req)
	last := "nobody's"
	for _, control := range []bool{false, true, false, true} {
		w, err := r.Watch(patient(t), req, control)
		must(t, err)
		if _, err := look(t, in, w.Password); err != nil {
			t.Errorf("control %v: the password is refused", control)
		}
		if _, err := look(t, in, last); err == nil {
			t.Errorf("control %v: the password before is taken", control)
		}
		last = w.Password
		must(t, w.Close())
		if _, err := look(t, in, last); err == nil {
			t.Errorf("control %v: the password is taken after the end", control)
		}
	}
}
