package egress

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

// A taken sandbox has one port only, any free one; for another it fails with
// the code.
type taken sandbox.Code

func (t taken) Listen(_ context.Context, network, addr string) (net.Listener, error) {
	if !strings.HasSuffix(addr, ":0") {
		return nil, &sandbox.Error{Code: sandbox.Code(t), Op: "listen", Message: "no"}
	}
	return net.Listen(network, addr)
}

// TestPortThatCannotBeHad checks when another port is used in its place, and
// that a warning is sent then.
func TestPortThatCannotBeHad(t *testing.T) {
	for _, tt := range []struct {
		code    sandbox.Code
		fixed   bool
		another bool
	}{
		{sandbox.CodeBusy, false, true}, // the port is in use
		{sandbox.CodeExecution, false, true},
		{sandbox.CodeUnavailable, false, false},
		{sandbox.CodeBusy, true, false},
	} {
		warned := false
		o := proxy.Options{Fixed: tt.fixed, Warn: func(error, string) { warned = true }}
		o.Rules.HTTPProxyPort = 3128
		l, err := listen(t.Context(), taken(tt.code), o)
		if tt.another != (err == nil) || tt.another != warned || err != nil && sandbox.CodeOf(err) != tt.code {
			t.Errorf("%s, fixed %t: %v, warned %t", tt.code, tt.fixed, err, warned)
		}
		if err == nil {
			l.Close()
		}
	}
}
