package attack

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestSOCKS checks the replies to invalid handshakes.
func TestSOCKS(t *testing.T) {
	r := egressNewRig(t, setup{})
	port := string([]byte{byte(r.trap.Port() >> 8), byte(r.trap.Port())})
	plain := string([]byte{byte(r.net.Port("http") >> 8), byte(r.net.Port("http"))})
	name := func(n, port string) string { return "\x05\x01\x00\x03" + string(byte(len(n))) + n + port }
	const none, password, offer = "\x05\x01\x00", "\x05\x01\x02", "\x05\x00"
	reply := func(code byte) string { return string([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0}) }
	for what, tt := range map[string]struct{ send, back string }{
		"BIND":                       {none + "\x05\x02\x00\x01\x7f\x00\x00\x01" + plain, offer + reply(7)},
		"UDP":                        {none + "\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", offer + reply(7)},
		"command 0":                  {none + "\x05\x00\x00\x01\x7f\x00\x00\x01" + plain, offer + reply(7)},
		"command 255":                {none + "\x05\xff\x00\x01\x7f\x00\x00\x01" + plain, offer + reply(7)},
		"the trap":                   {none + "\x05\x01\x00\x01\x7f\x00\x00\x02" + port, offer + reply(2)},
		"the trap by name":           {none + name("trap.test", port), offer + reply(2)},
		"the trap, mapped":           {none + "\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x02" + port, offer + reply(2)},
		"the trap, compatible":       {none + "\x05\x01\x00\x04" + strings.Repeat("\x00", 12) + "\x7f\x00\x00\x02" + port, offer + reply(2)},
		"loopback of IPv6":           {none + "\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01" + port, offer + reply(2)},
		"no address at all":          {none + "\x05\x01\x00\x01\x00\x00\x00\x00" + port, offer + reply(2)},
		"another host":               {none + name(testenv.Other, plain), offer + reply(2)},
		"port 0":                     {none + name(testenv.Files, "\x00\x00"), offer + reply(2)},
		"port 25":                    {none + name(testenv.Files, "\x00\x19"), offer + reply(2)},
		"kind 0":                     {none + "\x05\x01\x00\x00" + plain, offer + reply(8)},
		"kind 2":                     {none + "\x05\x01\x00\x02" + plain, offer + reply(8)},
		"name of no bytes":           {none + name("", plain), offer + reply(2)},
		"name of 255 bytes":          {none + name(strings.Repeat("a", 255), plain), offer + reply(2)},
		"name of 255 dots":           {none + name(strings.Repeat(".", 255), plain), offer + reply(2)},
		"NUL in the name":            {none + name("other.test\x00files.test", plain), offer + reply(2)},
		"NUL at the end":             {none + name("files.test\x00", plain), offer + reply(2)},
		"port in the name":           {none + name("files.test:80", plain), offer + reply(2)},
		"user in the name":           {none + name("a@files.test", plain), offer + reply(2)},
		"line end in the name":       {none + name("files.test\r\n", plain), offer + reply(2)},
		"reserved byte":              {none + "\x05\x01\x01\x01\x7f\x00\x00\x01" + plain, offer + reply(1)},
		"request of SOCKS 4":         {none + "\x04\x01\x00\x01\x7f\x00\x00\x01" + plain, offer + reply(1)},
		"no methods":                 {"\x05\x00", "\x05\xff"},
		"GSSAPI only":                {"\x05\x01\x01", "\x05\xff"},
		"254 methods":                {"\x05\xfe" + strings.Repeat("\x03", 254), "\x05\xff"},
		"malformed credentials":      {password + "\x05\x01a\x01b", "\x05\x02"},
		"enormous credentials":       {password + "\x01\xff" + strings.Repeat("\x1b", 255) + "\xff" + strings.Repeat("\x00", 255) + name(testenv.Other, plain), "\x05\x02\x01\x00" + reply(2)},
		"empty credentials":          {password + "\x01\x00\x00" + name(testenv.Other, plain), "\x05\x02\x01\x00" + reply(2)},
		"credentials not asked for":  {none + "\x01\x01a\x01b" + name(testenv.Other, plain), offer + reply(1)},
		"data before the reply":      {none + name(testenv.Other, plain) + "GET / HTTP/1.1\r\n\r\n", offer + reply(2)},
		"a part of a greeting":       {"\x05\x09\x00", ""},
		"a part of a request":        {none + "\x05\x01\x00\x03\xffab", offer},
		"greeting of SOCKS 4":        {"\x04\x01\x00\x50\x7f\x00\x00\x02a\x00", "HTTP/1.1 400"},
		"greeting of SOCKS 4a":       {"\x04\x01\x00\x50\x00\x00\x00\x01a\x00files.test\x00", "HTTP/1.1 400"},
		"TLS on the proxy's port":    {string(whole(sni("files.test"))), "HTTP/1.1 400"},
		"HTTP/2 on the proxy's port": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "HTTP/1.1 505"},
		"SSH on the proxy's port":    {"SSH-2.0-a\r\n\r\n", "HTTP/1.1 400"},
		"path on the proxy's port":   {"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400"},
	} {
		t.Run(what, func(t *testing.T) {
			before, k := r.count(), newTalk(r.dial())
			defer k.Close()
			io.WriteString(k, tt.send)
			k.Conn.(*net.TCPConn).CloseWrite()
			back, _ := io.ReadAll(k.br)
			if strings.HasPrefix(tt.back, "HTTP") && bytes.HasPrefix(back, []byte(tt.back)) {
				back = back[:len(tt.back)]
			}
			if string(back) != tt.back {
				t.Errorf("%q, want %q", back, tt.back)
			}
			if !strings.Contains(what, "a part") {
				r.refusals(before, 1)
			}
		})
	}
	if asked := r.net.Names.Asked(); len(asked) != 1 || asked[0] != "trap.test" {
		t.Errorf("names were looked up: %q", asked)
	}
}

// TestCredentials checks that credentials grant no access and cannot name
// another command.
func TestCredentials(t *testing.T) {
	r := egressNewRig(t, setup{})
	one, two := r.session.Caller("one"), r.session.Caller("two")
	login := func(c interface{ Env() map[string]string }) (string, string) {
		user, rest, _ := strings.Cut(strings.TrimPrefix(c.Env()["HTTP_PROXY"], "http://"), ":")
		token, _, _ := strings.Cut(rest, "@")
		return user, token
	}
	_, first := login(one)
	_, second := login(two)
	for _, tt := range []struct{ user, password, caller string }{
		{"one", first, "one"}, {"two", second, "two"}, {"one", second, ""}, {"two", first, ""}, {"one", "", ""}, {"", first, ""},
		{"one", first + "\x00", ""}, {"ONE", first, ""}, {"one", strings.ToLower(first), ""}, {"\x1b[2J", "\xff", ""}, {"one", first[:len(first)-1], ""},
	} {
		before := r.count()
		k := newTalk(r.dial())
		b := append([]byte{5, 1, 2, 1, byte(len(tt.user))}, tt.user...)
		b = append(append(append(b, byte(len(tt.password))), tt.password...), 5, 1, 0, 1, 127, 0, 0, 2, 0, 80)
		k.Write(b)
		io.ReadAll(k.br)
		k.Close()
		k = newTalk(r.dial())
		io.WriteString(k, "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic "+basic(tt.user, tt.password)+"\r\n\r\n")
		k.answer("GET")
		for _, e := range r.refusals(before, 2) {
			if e.Caller != tt.caller {
				t.Errorf("%q with %q is taken for %q: %+v", tt.user, tt.password, e.Caller, e)
			}
		}
	}
	if a, b := one.End(), two.End(); len(a) != 2 || len(b) != 2 {
		t.Errorf("%d and %d refusals are theirs", len(a), len(b))
	}
	before := r.count()
	k := newTalk(r.dial())
	io.WriteString(k, "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic "+basic("one", first)+"\r\n\r\n")
	k.answer("GET")
	if e := r.refusals(before, 1)[0]; e.Caller != "" {
		t.Errorf("credentials that have ended: %+v", e)
	}
}
