package server

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// noHandshake returns the error for a request to a WebSocket route that is no
// valid handshake. It removes what the library has put into the header.
func noHandshake(h http.Header) error {
	h.Del("Content-Type")
	return &resource.Fault{
		Status: http.StatusUpgradeRequired, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}},
		Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "serve", Message: "this is a WebSocket, and the request is no handshake for one"},
	}
}
