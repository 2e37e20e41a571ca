package browser_test

import (
	"bufio"
	"crypto/des"
	"encoding/binary"
	"io"
	"math/bits"
	"net/http"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestImageIsWatched checks a browser that can be watched.
func TestImageIsWatched(t *testing.T) {
	t.Parallel()
	b := browserBox(t, map[string]string{"HEADLESS": "0", "VNC": "1"})
	t.Run("listens on loopback only", func(t *testing.T) {
		listensOnly(t, b.of(t), "0100007F:170C\n0100007F:17C0\n0100007F:2406\n")
	})
	t.Run("serves the page", func(t *testing.T) { servesThePageToWatch(t, b.of(t)) })
	t.Run("with password only", func(t *testing.T) { isWatchedWithPasswordOnly(t, b.of(t)) })
}

// isWatchedWithPasswordOnly checks that the VNC server accepts the
// passwords of the file only, and no connection while there are none.
func isWatchedWithPasswordOnly(t *testing.T, b *box) {
	for _, password := range []string{"", "password", "12345678"} {
		if b.watch(password) {
			t.Errorf("the password %q opens what has none yet", password)
		}
	}
	b.sh(`cd /run/sandbox-browser && printf '%s\n' do-it-all __BEGIN_VIEWONLY__ look-now >new && mv new vnc.passwd`)
	for password, want := range map[string]bool{"do-it-al": true, "look-now": true, "": false, "__BEGIN_": false, "do-it-aX": false} {
		if b.watch(password) != want {
			t.Errorf("the password %q is let in: %v, want %v", password, !want, want)
		}
	}
	for _, gone := range []string{": >", "rm ", "printf '\\n\\n' >"} {
		b.sh(gone + "/run/sandbox-browser/vnc.passwd")
		for _, password := range []string{"do-it-al", "look-now", ""} {
			if b.watch(password) {
				t.Errorf("the password %q still opens it after %s", password, gone)
			}
		}
	}
	// The browser goes on, and so does the server when there are passwords
	// again.
	testenv.Until(t, "somebody is let in again", func() bool {
		// Once is not enough: each server that starts writes a file of its own.
		b.sh(`cd /run/sandbox-browser && echo once-more >new && mv new vnc.passwd`)
		return b.watch("once-mor")
	})
	if c := b.drive(); c.settled(c.page("about:blank")) == "" {
		t.Error("the browser has gone")
	}
}

// watch performs the start of an RFB 3.8 handshake and reports whether the
// password was accepted.
func (b *box) watch(password string) bool {
	b.t.Helper()
	conn, err := b.dial(5900)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	// A server that is about to end may accept and send nothing.
	stop := time.AfterFunc(testenv.Patience, func() { conn.Close() })
	defer stop.Stop()
	read := func(n int) []byte {
		buf := make([]byte, n)
		if _, err := io.ReadFull(conn, buf); err != nil {
			return nil
		}
		return buf
	}
	version := read(12)
	if version == nil {
		return false // refuses to speak at all
	}
	if string(version) != "RFB 003.008\n" {
		rest, _ := b.end()
		b.t.Fatalf("version %q; supervisor %d: %s", version, rest, b.stderr)
	}
	_, _ = conn.Write(version)
	count := read(1)
	if count == nil || count[0] == 0 {
		return false
	}
	kinds := read(int(count[0]))
	if len(kinds) != 1 || kinds[0] != 2 {
		b.t.Errorf("security types %v, want a password alone", kinds)
		return false
	}
	_, _ = conn.Write([]byte{2})
	challenge := read(16)
	if challenge == nil {
		return false
	}
	key := make([]byte, 8)
	copy(key, password)
	for i := range key {
		key[i] = bits.Reverse8(key[i])
	}
	cipher, err := des.NewCipher(key)
	if err != nil {
		b.t.Fatal(err)
	}
	cipher.Encrypt(challenge[:8], challenge[:8])
	cipher.Encrypt(challenge[8:], challenge[8:])
	_, _ = conn.Write(challenge)
	result := read(4)
	return result != nil && binary.BigEndian.Uint32(result) == 0
}

func servesThePageToWatch(t *testing.T, b *box) {
	for path, want := range map[string]int{"/vnc.html": 200, "/core/rfb.js": 200, "/../../../etc/passwd": 404, "/%2e%2e/%2e%2e/%2e%2e/etc/passwd": 404} {
		conn, err := b.dial(6080)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, answer.Status, want)
		}
		answer.Body.Close()
		conn.Close()
	}
}
