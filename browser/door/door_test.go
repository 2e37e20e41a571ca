package door

import (
	"net/netip"
	"testing"
)

func TestCheck(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	good := Head{Method: "GET", Target: "/x", Host: "127.0.0.1:80", Peer: loopback, Header: map[string][]string{}}
	with := func(change func(*Head)) Head {
		h := good
		h.Header = map[string][]string{}
		change(&h)
		return h
	}
	plain, pages := Rules{Port: 80}, Rules{Port: 80, Pages: true}
	narrow := Rules{Port: 80, Sources: netip.MustParsePrefix("127.0.0.2/32")}
	wide := Rules{Port: 80, Sources: netip.MustParsePrefix("10.0.0.0/8")}
	tests := []struct {
		name  string
		rules Rules
		head  Head
		want  *Refusal
	}{
		{"control", plain, good, nil},
		{"other loopback peer", plain, with(func(h *Head) { h.Peer = netip.MustParseAddr("127.9.9.9") }), nil},
		{"mapped loopback peer", plain, with(func(h *Head) { h.Peer = netip.MustParseAddr("::ffff:127.0.0.1") }), nil},
		{"peer unknown", plain, with(func(h *Head) { h.Peer = netip.Addr{} }), BadPeer},
		{"peer beside a narrow range", narrow, good, BadPeer},
		{"peer in a narrow range", narrow, with(func(h *Head) { h.Peer = netip.MustParseAddr("127.0.0.2") }), nil},
		{"own machine is not in the range", wide, good, BadPeer},
		{"peer in a wide range", wide, with(func(h *Head) { h.Peer = netip.MustParseAddr("::ffff:10.1.2.3") }), nil},
		{"upper case name", plain, with(func(h *Head) { h.Host = "LocalHost:80" }), nil},
		{"address of six", plain, with(func(h *Head) { h.Host = "[::1]:80" }), nil},
		{"address of six, long", plain, with(func(h *Head) { h.Host = "[0:0:0:0:0:0:0:1]:80" }), nil},
		{"address of six without brackets", plain, with(func(h *Head) { h.Host = "::1:80" }), BadHost},
		{"address of four in brackets", plain, with(func(h *Head) { h.Host = "[127.0.0.1]:80" }), BadHost},
		{"name in brackets", plain, with(func(h *Head) { h.Host = "[localhost]:80" }), BadHost},
		{"port twice", plain, with(func(h *Head) { h.Host = "127.0.0.1:80:80" }), BadHost},
		{"only a port", plain, with(func(h *Head) { h.Host = ":80" }), BadHost},
		{"origin where there are no pages", plain, with(func(h *Head) { h.Header["Origin"] = []string{"http://127.0.0.1:80"} }), BadOrigin},
		{"own origin", pages, with(func(h *Head) { h.Header["Origin"] = []string{"http://127.0.0.1:80"} }), nil},
		{"own origin and another", pages, with(func(h *Head) { h.Header["Origin"] = []string{"http://127.0.0.1:80", "null"} }), BadOrigin},
		{"fetch by an own page", pages, with(func(h *Head) { h.Header["Sec-Fetch-Site"] = []string{"same-origin"} }), nil},
		{"fetch by an own page where there are none", plain, with(func(h *Head) { h.Header["Sec-Fetch-Site"] = []string{"same-origin"} }), BadOrigin},
		{"fetch by hand", plain, with(func(h *Head) { h.Header["Sec-Fetch-Site"] = []string{"none"} }), nil},
		{"fetch in unknown words", pages, with(func(h *Head) { h.Header["Sec-Fetch-Site"] = []string{"new-word"} }), BadOrigin},
		{"space in the target", plain, with(func(h *Head) { h.Target = "/x y" }), BadTarget},
		{"no target", plain, with(func(h *Head) { h.Target = "" }), BadTarget},
		{"body", plain, with(func(h *Head) { h.Body = true }), BadBody},
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
	head := func(upgrade, connection, version, key string) Head {
		return Head{Method: "GET", Header: map[string][]string{
			"Upgrade": {upgrade}, "Connection": {"keep-alive", connection}, "Sec-Websocket-Version": {version}, "Sec-Websocket-Key": {key},
		}}
	}
	tests := []struct {
		name string
		head Head
		want *Refusal
	}{
		{"control", head("websocket", "Upgrade", "13", key), nil},
		{"words in other case", head("WebSocket", "x , UPGRADE", "13", key), nil},
		{"two protocols", head("websocket, h2c", "Upgrade", "13", key), BadProtocol},
		{"word that begins alike", head("websocket", "Upgrades", "13", key), BadUpgrade},
		{"version list", head("websocket", "Upgrade", "13, 8", key), BadUpgrade},
		{"key of fifteen bytes", head("websocket", "Upgrade", "13", "AAAAAAAAAAAAAAAAAAAA"), BadUpgrade},
		{"key that is none", head("websocket", "Upgrade", "13", "******"), BadUpgrade},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, refusal := Socket(tt.head)
			if refusal != tt.want || refusal == nil && got != key {
				t.Errorf("%q, %+v, want %+v", got, refusal, tt.want)
			}
		})
	}
	post := head("websocket", "Upgrade", "13", key)
	post.Method = "POST"
	if _, refusal := Socket(post); refusal != BadUpgrade {
		t.Errorf("by POST: %+v", refusal)
	}
}
