package server

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// noHandshake is the error about what asks for a WebSocket route and is no
// handshake for one. What the library has put into the header goes.
func noHandshake(h http.Header) error {
	h.Del("Content-Type")
	return &resource.Fault{
		Status: http.StatusUpgradeRequired, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}},
		Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "serve", Message: "this is a WebSocket, and the request is no handshake for one"},
	}
}
