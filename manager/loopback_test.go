//go:build linux

package manager_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestLoopbackRules holds that programs reach what rules name on the host's
// loopback interface as they are: by HTTP although NO_PROXY names the address,
// and by raw bytes without knowing of a proxy; that the rules still judge each
// request; that a range leaves NO_PROXY; and that Java's options are kept.
func TestLoopbackRules(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "at "+r.URL.Path) }))
		defer web.Close()
		bare, err := net.Listen("tcp", "127.0.0.2:0")
		must(o.t, err)
		defer bare.Close()
		go func() {
			for {
				c, err := bare.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, "raw bytes\n") // speaks first, which no other protocol does
				c.Close()
			}
		}()
		rules := func(list ...string) *config.SandboxSettings {
			return &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: list}}
		}
		host, port, _ := net.SplitHostPort(bare.Addr().String())
		r, err := o.try(rules("GET "+web.URL+"/pub", "tcp://"+bare.Addr().String()),
			"curl -sS "+web.URL+"/pub; echo; curl -s -o /dev/null -w '%{http_code}\n' "+web.URL+"/other; "+
				`python3 -c 'import socket,sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2]))).makefile().read())' `+host+" "+port+
				"; echo $NO_PROXY; echo $JAVA_TOOL_OPTIONS", func(r *manager.Request) {
				r.Command.Env = map[string]string{"JAVA_TOOL_OPTIONS": "-Da=b"}
			})
		must(o.t, err)
		got := string(r.Stdout)
		if !strings.HasPrefix(got, "at /pub\n403\nraw bytes\n\nlocalhost,127.0.0.1,::1\n-Da=b -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=") {
			o.t.Errorf("%s%s", got, r.Stderr)
		}
		r, err = o.try(rules("127.0.0.0/8"), "curl -sS "+web.URL+"/x; echo $NO_PROXY")
		must(o.t, err)
		if got := string(r.Stdout); got != "at /xlocalhost,::1\n" {
			o.t.Errorf("a range: %s%s", got, r.Stderr)
		}
	})
}
