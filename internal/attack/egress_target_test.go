package attack

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func addrs(list ...string) testenv.Reply {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return testenv.Reply{Addrs: out}
}

// spellings returns hosts that must not be reached, in every spelling. The
// trap is at 127.0.0.2, the proxy and its hosts are at 127.0.0.1, and
// files.test is allowed.
func spellings() map[string]string {
	return map[string]string{
		"another host":                 "other.test",
		"upper case":                   "OTHER.TEST",
		"dot at the end":               "other.test.",
		"two dots at the end":          "files.test..",
		"dot at the start":             ".files.test",
		"two dots within":              "files..test",
		"only a dot":                   ".",
		"NUL before an allowed name":   "other.test\x00.files.test",
		"NUL after an allowed name":    "files.test\x00other.test",
		"encoded NUL":                  "other.test%00.files.test",
		"encoded dot":                  "files%2etest",
		"encoded letter":               "%66iles.test",
		"ideographic dot":              "files\u3002test",
		"full-width dot":               "127\uff0e0.0.2",
		"full-width digits":            "\uff11\uff12\uff17.0.0.2",
		"look-alike letter":            "f\u0456les.test",
		"look-alike as punycode":       "xn--fles-n2d.test.files",
		"zero-width space":             "files\u200b.test",
		"soft hyphen":                  "fi\u00adles.test",
		"invalid UTF-8":                "files\xff.test",
		"overlong UTF-8":               "files\xc0\xaetest",
		"address of the trap":          "127.0.0.2",
		"short address":                "127.2",
		"address of three parts":       "127.0.2",
		"number":                       "2130706434",
		"octal number":                 "017700000002",
		"hex number":                   "0x7f000002",
		"hex number in upper case":     "0X7F000002",
		"octal parts":                  "0177.0.0.02",
		"hex parts":                    "0x7f.0x0.0x0.0x2",
		"mixed parts":                  "0x7f.0.2",
		"address with a dot":           "127.0.0.2.",
		"number beyond 32 bits":        "6425673730",
		"octal with 8":                 "0189.0.0.2",
		"five parts":                   "127.0.0.0.2",
		"padded parts":                 "000127.000000.0.2",
		"sign in a part":               "127.0.0.+2",
		"blank in a part":              "127.0.0. 2",
		"mapped address":               "[::ffff:127.0.0.2]",
		"mapped address in hex":        "[::ffff:7f00:2]",
		"mapped address in full":       "[0:0:0:0:0:ffff:7f00:0002]",
		"compatible address":           "[::127.0.0.2]",
		"translated address":           "[64:ff9b::7f00:2]",
		"locally translated address":   "[64:ff9b:1::7f00:2]",
		"stateless translation":        "[::ffff:0:127.0.0.2]",
		"6to4":                         "[2002:7f00:2::1]",
		"Teredo":                       "[2001:0:7f00:2::1]",
		"Teredo's client":              "[2001:0:5ef5:79fb::80ff:fffd]",
		"ISATAP":                       "[2001:470::5efe:127.0.0.2]",
		"loopback of IPv6":             "[::1]",
		"unspecified address":          "0.0.0.0",
		"unspecified address of IPv6":  "[::]",
		"zone":                         "[::1%lo]",
		"zone that is encoded":         "[fe80::1%25eth0]",
		"zone at a mapped address":     "[::ffff:127.0.0.2%1]",
		"zone at IPv4":                 "127.0.0.2%lo",
		"brackets around IPv4":         "[127.0.0.2]",
		"brackets around a name":       "[files.test]",
		"bracket left open":            "[::1",
		"version in brackets":          "[v1.fe80::a]",
		"metadata service":             "169.254.169.254",
		"metadata service as a number": "2852039166",
		"metadata service, mapped":     "[::ffff:a9fe:a9fe]",
		"broadcast":                    "255.255.255.255",
		"localhost":                    "localhost",
		"below localhost":              "a.localhost",
		"user name":                    "files.test@127.0.0.2",
		"user name and password":       "files.test:80@other.test",
		"backslash":                    "files.test\\@other.test",
		"backslash instead of slash":   "other.test\\.files.test",
		"fragment":                     "other.test#.files.test",
		"query":                        "other.test?.files.test",
		"path":                         "other.test/.files.test",
		"tab":                          "files.test\tother.test",
		"blank":                        "other.test files.test",
		"line end":                     "files.test\r\nother.test",
		"comma":                        "files.test,other.test",
		"semicolon":                    "files.test;other.test",
		"quotes":                       "\"files.test\"",
		"suffix of the name":           "notfiles.test",
		"prefix of the name":           "files.test.other.test",
		"wildcard":                     "*.files.test",
		"colon":                        "files.test:80:80",
		"too long":                     strings.Repeat("a.", 130) + "files.test",
		"label too long":               strings.Repeat("a", 64) + ".files.test",
		"hyphen at the start":          "-a.files.test",
		"escape of a terminal":         "\x1b[2Jfiles.test",
		"scheme":                       "http://files.test",
		"name of a socket":             "unix:/var/run/docker.sock",
		"nothing":                      "",
		"resolves to the trap":         "trap.test",
	}
}

// TestSpellings requests each of them through every carrier.
func TestSpellings(t *testing.T) {
	r := egressNewRig(t, setup{})
	refused := func(t *testing.T, before int, got int, body string) {
		t.Helper()
		if got != 403 && got != 400 {
			t.Errorf("%d %s", got, body)
		}
		r.refusals(before, 1)
	}
	for name, host := range spellings() {
		for _, port := range []int{r.trap.Port(), r.net.Port("http")} {
			t.Run(fmt.Sprintf("%s/%d", name, port), func(t *testing.T) {
				if name == "resolves to the trap" {
					port = r.trap.Port()
				}
				at := fmt.Sprintf("%s:%d", host, port)
				for _, text := range []string{
					"CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
					"CONNECT " + at + " HTTP/1.1\r\n\r\n",
					"GET http://" + at + "/greeting.txt HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
					"GET http://" + at + "/greeting.txt HTTP/1.0\r\n\r\n",
				} {
					method, _, _ := strings.Cut(text, " ")
					before, k := r.count(), newTalk(r.dial())
					fmt.Fprint(k, text)
					status, body, _ := k.answer(method)
					refused(t, before, status, body)
					k.Close()
				}
				before := r.count()
				if len(host) > 255 {
					return
				}
				if strings.Contains(host, ":") {
					host = strings.Trim(host, "[]")
				}
				k, reply := r.socks(host, port)
				k.Close()
				if reply != 2 {
					t.Errorf("SOCKS replies %d", reply)
				}
				r.refusals(before, 1)
			})
		}
	}
	r.holds()
}

// TestSpellingsOfOne checks that other spellings of an allowed host are that
// host, and recorded under its one name.
func TestSpellingsOfOne(t *testing.T) {
	r := egressNewRig(t, setup{})
	for _, host := range []string{"files.test", "FILES.Test", "files.test.", "Files.TEST."} {
		at := fmt.Sprintf("%s:%d", host, r.net.Port("http"))
		k := newTalk(r.dial())
		fmt.Fprintf(k, "GET http://%s/greeting.txt HTTP/1.1\r\nHost: files.test:%d\r\n\r\n", at, r.net.Port("http"))
		if status, body, _ := k.answer("GET"); status != 200 || body != testenv.Content {
			t.Errorf("%q: %d %s", host, status, body)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Host != "files.test" {
			t.Errorf("%+v", e)
		}
	}
}

// TestSpellingsOfTrap checks that other spellings of an address are recorded
// as that address: the decision is about the address that would be dialled.
func TestSpellingsOfTrap(t *testing.T) {
	r := egressNewRig(t, setup{})
	for _, host := range []string{
		"127.2", "127.0.2", "2130706434", "017700000002", "0x7f000002", "0X7F000002", "0177.0.0.02", "0x7f.0x0.0x0.0x2", "0x7f.0.2", "127.0.0.2.", "0177.00.00.2",
		"[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "[0:0:0:0:0:ffff:7f00:0002]", "[::FFFF:7F00:2]",
	} {
		before, k := r.count(), newTalk(r.dial())
		fmt.Fprintf(k, "CONNECT %s:%d HTTP/1.1\r\n\r\n", host, r.trap.Port())
		if status, _, _ := k.answer("CONNECT"); status != 403 {
			t.Errorf("%s: %d", host, status)
		}
		if e := r.refusals(before, 1)[0]; e.Host != trapAddr || e.Rule != "address" {
			t.Errorf("%s: %+v", host, e)
		}
	}
}

// TestPorts checks that a host without a port in its rule is reached at the
// ports of the web, with any protocol.
func TestPorts(t *testing.T) {
	r := egressNewRig(t, setup{})
	for _, port := range []int{1, 22, 23, 25, 53, 110, 143, 445, 465, 587, 853, 993, 1023} {
		k := newTalk(r.dial())
		before := r.count()
		fmt.Fprintf(k, "CONNECT files.test:%d HTTP/1.1\r\n\r\n", port)
		if status, body, _ := k.answer("CONNECT"); status != 403 {
			t.Errorf("%d: %d %s", port, status, body)
		}
		if e := r.refusals(before, 1)[0]; e.Rule != "port" || e.Port != uint16(port) {
			t.Errorf("%d: %+v", port, e)
		}
		k = newTalk(r.dial())
		fmt.Fprintf(k, "GET http://files.test:%d/ HTTP/1.1\r\nHost: files.test:%d\r\n\r\n", port, port)
		if status, body, _ := k.answer("GET"); status != 403 {
			t.Errorf("%d: %d %s", port, status, body)
		}
		if _, reply := r.socks("files.test", port); reply != 2 {
			t.Errorf("%d: SOCKS replies %d", port, reply)
		}
	}
	for _, port := range []string{"0", "00080", "65536", "-1", "+80", "80 ", "0x50", "", "80a", "99999999999999999999", "８０"} {
		k := newTalk(r.dial())
		fmt.Fprintf(k, "CONNECT files.test:%s HTTP/1.1\r\n\r\n", port)
		if status, body, _ := k.answer("CONNECT"); status != 400 && status != 505 {
			t.Errorf("port %q: %d %s", port, status, body)
		}
		k.Close()
		k = newTalk(r.dial())
		fmt.Fprintf(k, "GET http://files.test:%s/ HTTP/1.1\r\nHost: files.test:%s\r\n\r\n", port, port)
		if status, body, _ := k.answer("GET"); status != 400 && status != 505 {
			t.Errorf("port %q: %d %s", port, status, body)
		}
		k.Close()
	}
	if asked := r.net.Names.Asked(); len(asked) != 0 {
		t.Errorf("names were looked up: %v", asked)
	}
}
