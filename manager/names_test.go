//go:build linux

package manager_test

import (
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestNamesInside holds that the name of a host with a tcp:// rule resolves
// inside, so that a program which knows no proxy reaches it; that a rule which
// comes later does so at the next command of the same sandbox, and one that goes
// takes the name with it; that names of other rules are reached through TLS and
// HTTP alike; and that what no rule names does not resolve.
func TestNamesInside(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		serve := func(text string) (port string) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(o.t, err)
			o.t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					io.WriteString(c, text+"\n") // speaks first, which no other protocol does
					c.Close()
				}
			}()
			return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		}
		db, cache := serve("from db"), serve("from cache")
		for _, name := range []string{"db.example", "cache.example"} {
			o.net.Names.Set(name, testenv.Reply{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
		}
		rules := func(list ...string) *config.SandboxSettings {
			return &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: append(list, "tcp://127.0.0.1:1-65535")}}
		}
		dial := func(name, port string) string {
			return `env -u HTTP_PROXY -u http_proxy -u ALL_PROXY -u all_proxy python3 -c 'import socket,sys
try: print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).makefile().read().strip())
except OSError as e: print(type(e).__name__)' ` + name + " " + port + "; "
		}
		say := func(flags *config.SandboxSettings, line string) string {
			o.t.Helper()
			r, err := o.try(flags, line)
			must(o.t, err)
			return string(r.Stdout)
		}
		first, second := "tcp://db.example:"+db, "tcp://cache.example:"+cache
		all := dial("db.example", db) + dial("DB.Example", db) + dial("cache.example", cache)
		if got := say(rules(first), all+"hostname; getent hosts $(hostname); getent hosts localhost"); !strings.HasPrefix(got, "from db\nfrom db\ngaierror\nsandbox\n127.0.0.1") {
			o.t.Errorf("one rule: %s", got)
		}
		if got := say(rules(first, second), all); got != "from db\nfrom db\nfrom cache\n" {
			o.t.Errorf("a rule more: %s", got)
		}
		if got := say(rules(second), all); got != "gaierror\ngaierror\nfrom cache\n" {
			o.t.Errorf("a rule less: %s", got)
		}
		if got := say(nil, all+"cat /etc/hosts | grep -c process; true"); got != "gaierror\ngaierror\ngaierror\n0\n" {
			o.t.Errorf("no rules: %s", got)
		}
		// HTTP without a proxy, by a rule that names a path: the proxy still judges.
		web := o.net.URL("http", "web.test", "/pub")
		if got := say(rules("GET "+web), "curl -s --noproxy '*' "+web+" -o /dev/null -w '%{http_code} '; curl -s --noproxy '*' "+
			o.net.URL("http", "web.test", "/other")+" -o /dev/null -w '%{http_code}'"); !strings.HasSuffix(got, " 403") || strings.HasPrefix(got, "000") {
			o.t.Errorf("by HTTP without a proxy: %s", got)
		}
	})
}
