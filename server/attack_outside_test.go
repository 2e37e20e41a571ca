package server

import (
	"strings"
	"testing"
)

// noHost holds that not even an admin runs a command on the host, whatever the
// settings of the call say.
func (w *world) noHost(t *testing.T) {
	for _, settings := range []string{
		`{"settings":{"enabled":false,"commands":{"allowUnsandboxed":true}}}`,
		`{"settings":{"mode":"off","commands":{"allowUnsandboxed":true}}}`,
		`{"settings":{"provider":"host"}}`,
	} {
		for _, q := range []ask{
			{as: "admin", method: "POST", path: "/v1/sandboxes", body: `{"session":"outside"}`},
			{as: "admin", method: "POST", path: "/v1/sandboxes/{mine}/exec", body: `{"args":["id"]}`},
		} {
			q.header = []string{"Sandbox-Settings", settings}
			got, _ := w.does(q)
			if got.status != 403 && got.status != 404 && got.status != 422 || strings.Contains(got.body, "uid=") {
				t.Errorf("%s %s with %s is answered %d: %s", q.method, q.path, settings, got.status, got.body)
			}
		}
	}
}
