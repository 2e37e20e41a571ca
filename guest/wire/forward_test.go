package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

var (
	v4   = wire.Endpoint{Family: wire.FamilyIPv4, Port: 80, Host: "\x7f\x00\x00\x01"}
	v6   = wire.Endpoint{Family: wire.FamilyIPv6, Port: 65535, Host: strings.Repeat("\x00", 15) + "\x01"}
	sock = wire.Endpoint{Family: wire.FamilyUnix, Host: "/run/s"}
)

func TestForwardRoundTrip(t *testing.T) {
	for name, tt := range map[string]struct {
		payload []byte
		decode  func([]byte) (any, error)
		want    any
	}{
		"dial":          {wire.Dial{To: v4}.Encode(), as(wire.DecodeDial), wire.Dial{To: v4}},
		"dial a socket": {wire.Dial{To: sock}.Encode(), as(wire.DecodeDial), wire.Dial{To: sock}},
		"connected":     {wire.Connected{Local: v4, Remote: v6}.Encode(), as(wire.DecodeConnected), wire.Connected{Local: v4, Remote: v6}},
		"connected, no name": {
			wire.Connected{Local: wire.Endpoint{Family: wire.FamilyUnix}, Remote: sock}.Encode(), as(wire.DecodeConnected),
			wire.Connected{Local: wire.Endpoint{Family: wire.FamilyUnix}, Remote: sock},
		},
		"listen":    {wire.Listen{At: v6, Max: 7}.Encode(), as(wire.DecodeListen), wire.Listen{At: v6, Max: 7}},
		"pass":      {wire.Pass{At: v4, Ticket: 9}.Encode(), as(wire.DecodePass), wire.Pass{At: v4, Ticket: 9}},
		"listening": {wire.Listening{At: v6}.Encode(), as(wire.DecodeListening), wire.Listening{At: v6}},
		"accepted":  {wire.Accepted{Listener: 3, Local: v4, Remote: v4}.Encode(), as(wire.DecodeAccepted), wire.Accepted{Listener: 3, Local: v4, Remote: v4}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.decode(tt.payload)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err := tt.decode(append(tt.payload[:len(tt.payload):len(tt.payload)], "later fields"...)); err != nil {
				t.Errorf("a longer message: %v", err)
			}
			for n := range len(tt.payload) {
				if _, err := tt.decode(tt.payload[:n]); !isViolation(err) {
					t.Errorf("cut to %d bytes: %v", n, err)
				}
			}
		})
	}
}

func TestBadEndpoints(t *testing.T) {
	for name, e := range map[string]wire.Endpoint{
		"no family":           {},
		"family 2":            {Family: 2, Host: "1234"},
		"IPv4 of 16 bytes":    {Family: wire.FamilyIPv4, Host: v6.Host},
		"IPv6 of 4 bytes":     {Family: wire.FamilyIPv6, Host: v4.Host},
		"relative path":       {Family: wire.FamilyUnix, Host: "run/s"},
		"abstract":            {Family: wire.FamilyUnix, Host: "@bulkhead-sandbox-guest"},
		"abstract, raw":       {Family: wire.FamilyUnix, Host: "\x00bulkhead-sandbox-guest"},
		"NUL in the path":     {Family: wire.FamilyUnix, Host: "/s\x00/etc"},
		"path and port":       {Family: wire.FamilyUnix, Host: "/s", Port: 1},
		"path of 108 bytes":   {Family: wire.FamilyUnix, Host: "/" + strings.Repeat("x", 107)},
		"socket with no name": {Family: wire.FamilyUnix},
	} {
		_, dial := wire.DecodeDial(wire.Dial{To: e}.Encode())
		_, listen := wire.DecodeListen(wire.Listen{At: e, Max: 1}.Encode())
		_, pass := wire.DecodePass(wire.Pass{At: e, Ticket: 1}.Encode())
		if !isViolation(dial) || !isViolation(listen) || !isViolation(pass) {
			t.Errorf("%s: dial %v, listen %v, pass %v", name, dial, listen, pass)
		}
	}
	for name, m := range map[string]wire.Pass{"no ticket": {At: v4}, "a Unix socket": {At: sock, Ticket: 1}} {
		if _, err := wire.DecodePass(m.Encode()); !isViolation(err) {
			t.Errorf("pass with %s: %v", name, err)
		}
	}
	for _, most := range []uint16{0, wire.MaxAccepted + 1} {
		if _, err := wire.DecodeListen(wire.Listen{At: v4, Max: most}.Encode()); !isViolation(err) {
			t.Errorf("%d connections: %v", most, err)
		}
	}
}

func FuzzForwardMessages(f *testing.F) {
	f.Add(wire.Dial{To: sock}.Encode())
	f.Add(wire.Listen{At: v4, Max: 5}.Encode())
	f.Add(wire.Pass{At: v6, Ticket: 5}.Encode())
	f.Add(wire.Connected{Local: v4, Remote: v6}.Encode())
	f.Add(wire.Accepted{Listener: 1, Local: v6, Remote: v6}.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		again(t, in, wire.DecodeDial, wire.Dial.Encode)
		again(t, in, wire.DecodeListen, wire.Listen.Encode)
		again(t, in, wire.DecodePass, wire.Pass.Encode)
		again(t, in, wire.DecodeConnected, wire.Connected.Encode)
		again(t, in, wire.DecodeListening, wire.Listening.Encode)
		again(t, in, wire.DecodeAccepted, wire.Accepted.Encode)
	})
}

// again holds that what was decoded is encoded to what decodes to it.
func again[M comparable](t *testing.T, in []byte, decode func([]byte) (M, error), encode func(M) []byte) {
	t.Helper()
	m, err := decode(in)
	if err != nil {
		return
	}
	if n, err := decode(encode(m)); err != nil || n != m {
		t.Errorf("%+v became %+v, %v", m, n, err)
	}
}
