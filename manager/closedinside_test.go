//go:build linux

package manager_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// noOtherWay tries what leads out of a machine with a network, and prints what
// went well.
const noOtherWay = `
tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -vx lo | sed 's/^/interface /'
tail -n +2 /proc/net/route | sed 's/^/route /'
awk '$NF != "lo" {print "route6 " $0}' /proc/net/ipv6_route 2>/dev/null
getent hosts files.test | grep -v '^127\.' && echo looked up
getent hosts other.test && echo looked up
getent ahosts localhost.files.test && echo looked up
timeout 10 bash -c 'exec 3<>/dev/udp/8.8.8.8/53' 2>/dev/null && echo UDP
timeout 10 bash -c 'exec 3<>/dev/tcp/1.1.1.1/443' 2>/dev/null && echo TCP
timeout 10 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' 2>/dev/null && echo metadata
curl -s -o /dev/null --noproxy '*' --max-time 10 URL && echo without proxy
python3 - "$HTTP_PROXY" <<'END'
import socket, sys, urllib.parse
u = urllib.parse.urlsplit(sys.argv[1])
def ask(command, address):
    s = socket.create_connection((u.hostname, u.port), 10)
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00"
    s.sendall(b"\x05" + command + b"\x00" + address)
    return s.recv(10)[1]
udp = ask(b"\x03", b"\x01\x08\x08\x08\x08\x00\x35")
bind = ask(b"\x02", b"\x01\x00\x00\x00\x00\x00\x00")
dns = ask(b"\x01", b"\x01\x08\x08\x08\x08\x00\x35")
if (udp, bind, dns) != (7, 7, 2): print("SOCKS", udp, bind, dns)
for family, kind, proto in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0)):
    try:
        socket.socket(family, kind, proto); print("raw socket", family)
    except OSError: pass
END
true`

// TestNoOtherEgress holds that the proxy is the only way: there is no
// interface but lo, no route, no resolver and no datagram that leaves. The name
// of a host with a rule has an address of the loopback interface.
func TestNoOtherEgress(t *testing.T) {
	t.Parallel()
	onForts(t, func(f *fort) {
		out := f.script(strings.ReplaceAll(noOtherWay, "URL", f.net.URL("http", testenv.Files, "/greeting.txt")))
		if strings.TrimSpace(out) != "" {
			f.t.Errorf("inside: %s", out)
		}
		if asked := f.net.Names.Asked(); len(asked) != 0 {
			f.t.Errorf("looked up: %q", asked)
		}
		if n := f.net.Hits(testenv.Files); n != 0 {
			f.t.Errorf("%d requests came through", n)
		}
		f.again()
	})
}
