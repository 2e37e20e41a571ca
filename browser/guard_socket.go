package browser

import (
	"encoding/base64"
	"strings"
)

// upgradesGuard reports whether a head asks for a protocol other than HTTP.
func upgradesGuard(h guardHead) bool {
	return len(h.Values("Upgrade")) > 0 || hasToken(h.Values("Connection"), "upgrade")
}

// socketGuard returns the key of a WebSocket handshake, or a refusal if the
// head is no valid handshake (RFC 6455, section 4.2.1).
func socketGuard(h guardHead) (key string, _ *guardRefusal) {
	upgrade := h.Values("Upgrade")
	if len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket") {
		return "", badProtocol
	}
	keys, versions := h.Values("Sec-Websocket-Key"), h.Values("Sec-Websocket-Version")
	if h.Method != "GET" || !hasToken(h.Values("Connection"), "upgrade") ||
		len(keys) != 1 || len(versions) != 1 || versions[0] != "13" {
		return "", badUpgrade
	}
	if raw, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(raw) != 16 {
		return "", badUpgrade
	}
	return keys[0], nil
}

// hasToken reports whether one of the comma-separated lists contains word.
func hasToken(lists []string, word string) bool {
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.Trim(part, " \t"), word) {
				return true
			}
		}
	}
	return false
}
