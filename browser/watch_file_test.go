package browser

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestFilesAreNotAskedOfTheBrowser checks that with a File function no program
// inside supplies code for a viewer's browser.
func TestFilesAreNotAskedOfTheBrowser(t *testing.T) {
	nothing := func(context.Context, []byte, []byte) error { return nil }
	w, err := OpenWatch(t.Context(), WatchOptions{
		Dial: func(context.Context) (net.Conn, error) {
			t.Error("a program inside was asked")
			return nil, errors.New("nobody is asked")
		},
		File: func(_ context.Context, path string, _ int64) ([]byte, error) {
			if path == "/vnc.html" {
				return []byte("ours"), nil
			}
			return nil, sandbox.Errorf(sandbox.CodeNotFound, "read", "there is none")
		},
		SetPasswords: nothing,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(address string) (int, string, string) {
		resp, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), resp.Request.URL.String()
	}
	status, body, at := get(w.URL())
	if status != http.StatusOK || body != "ours" {
		t.Errorf("%d %q", status, body)
	}
	other, _, _ := strings.Cut(at, "vnc.html")
	if status, _, _ := get(other + "core/none.js"); status != http.StatusNotFound {
		t.Errorf("a file that is not there: %d", status)
	}
}
