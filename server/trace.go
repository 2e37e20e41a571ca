package server

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// maxRequestID is the longest request id that is accepted from the caller, in
// bytes.
const maxRequestID = 64

// requestID returns the caller's id where it is acceptable: given once, short,
// and of characters that are safe in a log. Otherwise it returns a new one.
func requestID(r *http.Request) string {
	ids := r.Header.Values(api.HeaderRequestID)
	if len(ids) == 1 && len(ids[0]) <= maxRequestID && isID(ids[0]) {
		return ids[0]
	}
	return randomHex(16)
}

// newTraceparent returns a new span in the trace of the caller, or in a new trace
// where the caller's is invalid. See https://www.w3.org/TR/trace-context/.
func newTraceparent(r *http.Request) string {
	trace, flags := randomHex(16), "00"
	if given := r.Header.Values(api.HeaderTraceparent); len(given) == 1 {
		if t, f, ok := parseTrace(given[0]); ok {
			trace, flags = t, f
		}
	}
	return "00-" + trace + "-" + randomHex(8) + "-" + flags
}

// parseTrace parses the id of the trace and its flags. Of later versions it
// accepts the fields that this version has, as the specification requires; of
// flags only the one that this version defines.
func parseTrace(s string) (trace, flags string, ok bool) {
	if len(s) < 55 || len(s) > 512 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", "", false
	}
	version, trace, parent, flag := s[:2], s[3:35], s[36:52], s[53:55]
	switch {
	case !lowerHex(version) || version == "ff" || !lowerHex(trace) || !lowerHex(parent) || !lowerHex(flag):
		return "", "", false
	case version == "00" && len(s) != 55, len(s) > 55 && s[55] != '-':
		return "", "", false
	case strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "":
		return "", "", false
	}
	flags = "00"
	if strings.IndexByte("13579bdf", flag[1]) >= 0 {
		flags = "01"
	}
	return trace, flags, true
}

func lowerHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // which does not fail
	return hex.EncodeToString(b)
}
