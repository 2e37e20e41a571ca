package daemon

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/daemon/route"
)

// upgrades refuses what asks for a WebSocket route and is no handshake: what
// the library of WebSockets would answer is no problem in our form.
func upgrades(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key"))
	if r.Method == http.MethodGet && names(r.Header["Connection"], "upgrade") && names(r.Header["Upgrade"], "websocket") &&
		r.Header.Get("Sec-Websocket-Version") == "13" && err == nil && len(key) == 16 && len(r.Header["Sec-Websocket-Key"]) == 1 {
		return nil
	}
	return &route.Fault{
		Status: http.StatusUpgradeRequired, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}},
		Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "serve", Message: "this is a WebSocket, and the request is no handshake for one"},
	}
}

// names reports whether a header of words has that one.
func names(values []string, word string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), word) {
				return true
			}
		}
	}
	return false
}
