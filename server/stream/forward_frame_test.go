package stream

import (
	"bytes"
	"encoding/json"
	"net"
	"testing"
)

func FuzzFrame(f *testing.F) {
	for kind := range byte(kinds) {
		f.Add(forwardFrame{kind, 7, []byte("abcd")}.encode(nil))
		f.Add(forwardFrame{kind, 1 << 31, nil}.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeForward(b)
		if err == nil && !bytes.Equal(got.encode(nil), b) {
			t.Errorf("%x becomes %+v", b, got)
		}
	})
}

func TestAddresses(t *testing.T) {
	for _, a := range []net.Addr{
		&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1).To4(), Port: 80}, &net.TCPAddr{IP: net.IPv6loopback, Port: 1},
		&net.UnixAddr{Net: "unix", Name: "/run/\xff"}, other{address{"other", "x"}},
	} {
		b, err := json.Marshal(addressOf(a))
		var back address
		if err != nil || json.Unmarshal(b, &back) != nil {
			t.Fatalf("%s, %v", b, err)
		}
		got := back.plain()
		if got.Network() != a.Network() || got.String() != a.String() {
			t.Errorf("%v becomes %v", a, got)
		}
	}
	if got := addressOf(nil).plain(); got.String() != "" {
		t.Errorf("no address becomes %v", got)
	}
	if got := (address{"tcp", "nonsense"}).plain(); got.String() != "nonsense" {
		t.Errorf("a TCP address that is none becomes %v", got)
	}
}
