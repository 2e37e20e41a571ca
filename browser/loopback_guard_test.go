package browser

import (
	"net/netip"
	"testing"
)

func TestCheck(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	good := guardHead{Method: "GET", Target: "/x", Host: "127.0.0.1:80", Peer: loopback, Header: map[string][]string{}}
	with := func(change func(*guardHead)) guardHead {
		h := good
		h.Header = map[string][]string{}
		change(&h)
		return h
	}
	plain, pages := guardRules{Port: 80}, guardRules{Port: 80, Pages: true}
	narrow := guardRules{Port: 80, Sources: netip.MustParsePrefix("127.0.0.2/32")}
	wide := guardRules{Port: 80, Sources: netip.MustParsePrefix("10.0.0.0/8")}
	tests := []struct {
		name  string
		rules guardRules
		head  guardHead
		want  *guardRefusal
	}{
		{"control", plain, good, nil},
		{"other loopback peer", plain, with(func(h *guardHead) { h.Peer = netip.MustParseAddr("127.9.9.9") }), nil},
		{"mapped loopback peer", plain, with(func(h *guardHead) { h.Peer = netip.MustParseAddr("::ffff:127.0.0.1") }), nil},
		{"peer unknown", plain, with(func(h *guardHead) { h.Peer = netip.Addr{} }), badPeer},
		{"peer beside a narrow range", narrow, good, badPeer},
		{"peer in a narrow range", narrow, with(func(h *guardHead) { h.Peer = netip.MustParseAddr("127.0.0.2") }), nil},
		{"own machine is not in the range", wide, good, badPeer},
		{"peer in a wide range", wide, with(func(h *guardHead) { h.Peer = netip.MustParseAddr("::ffff:10.1.2.3") }), nil},
		{"upper case name", plain, with(func(h *guardHead) { h.Host = "LocalHost:80" }), nil},
		{"address of six", plain, with(func(h *guardHead) { h.Host = "[::1]:80" }), nil},
		{"address of six, long", plain, with(func(h *guardHead) { h.Host = "[0:0:0:0:0:0:0:1]:80" }), nil},
		{"address of six without brackets", plain, with(func(h *guardHead) { h.Host = "::1:80" }), badHost},
		{"address of four in brackets", plain, with(func(h *guardHead) { h.Host = "[127.0.0.1]:80" }), badHost},
		{"name in brackets", plain, with(func(h *guardHead) { h.Host = "[localhost]:80" }), badHost},
		{"port twice", plain, with(func(h *guardHead) { h.Host = "127.0.0.1:80:80" }), badHost},
		{"only a port", plain, with(func(h *guardHead) { h.Host = ":80" }), badHost},
		{"origin where there are no pages", plain, with(func(h *guardHead) { h.Header["Origin"] = []string{"http://127.0.0.1:80"} }), badOrigin},
		{"own origin", pages, with(func(h *guardHead) { h.Header["Origin"] = []string{"http://127.0.0.1:80"} }), nil},
		{"own origin and another", pages, with(func(h *guardHead) { h.Header["Origin"] = []string{"http://127.0.0.1:80", "null"} }), badOrigin},
		{"fetch by an own page", pages, with(func(h *guardHead) { h.Header["Sec-Fetch-Site"] = []string{"same-origin"} }), nil},
		{"fetch by an own page where there are none", plain, with(func(h *guardHead) { h.Header["Sec-Fetch-Site"] = []string{"same-origin"} }), badOrigin},
		{"fetch by hand", plain, with(func(h *guardHead) { h.Header["Sec-Fetch-Site"] = []string{"none"} }), nil},
		{"fetch in unknown words", pages, with(func(h *guardHead) { h.Header["Sec-Fetch-Site"] = []string{"new-word"} }), badOrigin},
		{"space in the target", plain, with(func(h *guardHead) { h.Target = "/x y" }), badTarget},
		{"no target", plain, with(func(h *guardHead) { h.Target = "" }), badTarget},
		{"body", plain, with(func(h *guardHead) { h.Body = true }), badBody},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.rules.Check(tt.head); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestSocket(t *testing.T) {
	const key = "AAAAAAAAAAAAAAAAAAAAAA=="
	head := func(upgrade, connection, version, key string) guardHead {
		return guardHead{Method: "GET", Header: map[string][]string{
			"Upgrade": {upgrade}, "Connection": {"keep-alive", connection}, "Sec-Websocket-Version": {version}, "Sec-Websocket-Key": {key},
		}}
	}
	tests := []struct {
		name string
		head guardHead
		want *guardRefusal
	}{
		{"control", head("websocket", "Upgrade", "13", key), nil},
		{"words in other case", head("WebSocket", "x , UPGRADE", "13", key), nil},
		{"two protocols", head("websocket, h2c", "Upgrade", "13", key), badProtocol},
		{"word that begins alike", head("websocket", "Upgrades", "13", key), badUpgrade},
		{"version list", head("websocket", "Upgrade", "13, 8", key), badUpgrade},
		{"key of fifteen bytes", head("websocket", "Upgrade", "13", "AAAAAAAAAAAAAAAAAAAA"), badUpgrade},
		{"key that is none", head("websocket", "Upgrade", "13", "******"), badUpgrade},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, refusal := socketGuard(tt.head)
			if refusal != tt.want || refusal == nil && got != key {
				t.Errorf("%q, %+v, want %+v", got, refusal, tt.want)
			}
		})
	}
	post := head("websocket", "Upgrade", "13", key)
	post.Method = "POST"
	if _, refusal := socketGuard(post); refusal != badUpgrade {
		t.Errorf("by POST: %+v", refusal)
	}
}
