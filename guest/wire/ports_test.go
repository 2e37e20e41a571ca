package wire

import (
	"reflect"
	"strings"
	"testing"
)

// TestPorts holds that a list comes through as it is, that a long one is cut to what
// one frame holds, and that a list which breaks a rule is an error.
func TestPorts(t *testing.T) {
	four := Endpoint{Family: FamilyIPv4, Port: 80, Host: "\x7f\x00\x00\x01"}
	list := []Port{{At: four, PID: 7, Command: "a\x00b\x00"}, {At: Endpoint{Family: FamilyIPv6, Port: 65535, Host: strings.Repeat("\x00", 16)}}}
	for _, l := range [][]Port{nil, list} {
		if got, err := DecodePorts(EncodePorts(l)); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	var many []Port
	for range 3 * MaxPorts {
		many = append(many, Port{At: list[1].At, PID: 1, Command: strings.Repeat("x", 5000)})
	}
	data := EncodePorts(many)
	if got, err := DecodePorts(data); err != nil || len(got) != MaxPorts || len(data) > MaxData || len(got[0].Command) != MaxPortCommand || got[MaxPorts-1].Command != "" {
		t.Errorf("%d ports in %d bytes: %v", len(got), len(data), err)
	}
	for name, bad := range map[string][]byte{
		"cut": EncodePorts(list)[:20], "empty": nil, "many": {255, 255, 255, 255},
		"a socket of the file system": EncodePorts([]Port{{At: Endpoint{Family: FamilyUnix, Host: "/a"}}}),
		"port zero":                   EncodePorts([]Port{{At: Endpoint{Family: FamilyIPv4, Host: four.Host}}}),
		"a process that cannot be":    EncodePorts([]Port{{At: four, PID: 1 << 31}}),
	} {
		if got, err := DecodePorts(bad); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
