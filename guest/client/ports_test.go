package client_test

import (
	"net"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// portsOf returns what a client makes of a guest that answers a request for ports
// with the frame.
func portsOf(t *testing.T, answer wire.Frame, features ...string) ([]sandbox.ListeningPort, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		w, r := wire.NewWriter(theirs), wire.NewReader(theirs, wire.MaxRequest)
		for {
			f, err := r.Next()
			if err != nil {
				return
			}
			switch f.Type {
			case wire.TypeHello:
				_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: features}.Encode()})
			case wire.TypePorts:
				answer.Stream = f.Stream
				_ = w.Write(answer)
			}
		}
	}()
	c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		theirs.Close()
		c.Close()
	})
	return c.Ports(t.Context())
}

// TestPortsOfGuest holds what a client makes of answers, also of those that break
// the rules.
func TestPortsOfGuest(t *testing.T) {
	list := []wire.Port{{At: wire.Endpoint{Family: wire.FamilyIPv4, Port: 80, Host: "\x7f\x00\x00\x02"}, PID: 7, Command: "a\x00\xffb\x00"}}
	good := wire.Frame{Type: wire.TypePortList, Payload: wire.EncodePorts(list)}
	got, err := portsOf(t, good, wire.FeaturePorts)
	if err != nil || len(got) != 1 || got[0].Addr.String() != "127.0.0.2:80" || got[0].PID != 7 || got[0].Command != "a \uFFFDb" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		answer   wire.Frame
		features []string
		code     sandbox.Code
	}{
		"an older guest": {good, nil, sandbox.CodeUnsupported},
		"cut":            {wire.Frame{Type: wire.TypePortList, Payload: good.Payload[:9]}, []string{wire.FeaturePorts}, sandbox.CodeUnavailable},
		"another answer": {wire.Frame{Type: wire.TypeDone}, []string{wire.FeaturePorts}, sandbox.CodeUnavailable},
		"a refusal":      {wire.Frame{Type: wire.TypeFailed, Payload: wire.Failed{Kind: wire.KindResource, Text: "full"}.Encode()}, []string{wire.FeaturePorts}, sandbox.CodeExecution},
	} {
		if got, err := portsOf(t, c.answer, c.features...); sandbox.CodeOf(err) != c.code || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
