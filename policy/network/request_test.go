package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// requestCases are what policies say of protocols and requests. A case is
// "tls HOST:PORT", "raw HOST:PORT", "any HOST:PORT" for Judge, or
// "METHOD HOST:PORT PATH" of plain HTTP, with "+" before the method of one that
// was read inside TLS; with the verdict and what decided: A0 is the first rule
// of those that allow, D0 of those that deny.
func requestCases() []struct {
	name  string
	o     network.Options
	cases string
} {
	return []struct {
		name  string
		o     network.Options
		cases string
	}{
		{"ports of a plain rule", network.Options{Allowed: []string{"a.test", "b.test:25", "10.0.0.0/8", "[fd00::/8]:22"}}, `
			tls a.test:443 = allow A0
			GET a.test:80 / = allow A0
			GET a.test:443 / = allow A0
			tls a.test:1024 = allow A0
			tls a.test:65535 = allow A0
			any a.test:1023 = deny port
			any a.test:22 = deny port
			any a.test:25 = deny port
			any a.test:53 = deny port
			any a.test:465 = deny port
			tls a.test:853 = deny port
			tls a.test:444 = deny port
			any a.test:1 = deny port
			tls b.test:25 = allow A1
			raw b.test:25 = deny protocol
			tls b.test:443 = deny network.allowedDomains
			tls b.test:26 = deny network.allowedDomains
			tls 10.1.2.3:443 = allow A2
			any 10.1.2.3:22 = deny port
			any 10.1.2.3:25 = deny port
			tls [fd00::1]:22 = allow A3
			any [fd00::1]:443 = deny address
		`},
		{"schemes", network.Options{Allowed: []string{"https://a.test", "http://b.test", "tcp://c.test:22", "https://d.test:8443", "http://e.test:8080-8090", "tcp://*.f.test:443", "https://*.g.test", "tcp://10.0.0.0/8:5432", "https://10.0.0.0/8"}}, `
			any a.test:443 = allow A0
			tls a.test:443 = allow A0
			GET a.test:443 / = deny protocol
			raw a.test:443 = deny protocol
			any a.test:80 = deny network.allowedDomains
			tls a.test:8443 = deny network.allowedDomains
			any b.test:80 = allow A1
			GET b.test:80 / = allow A1
			OPTIONS b.test:80 * = allow A1
			GET b.test:80 /../x = allow A1
			tls b.test:80 = deny protocol
			raw b.test:80 = deny protocol
			any b.test:443 = deny network.allowedDomains
			GET b.test:8080 / = deny network.allowedDomains
			any c.test:22 = allow A2
			raw c.test:22 = allow A2
			tls c.test:22 = allow A2
			GET c.test:22 / = allow A2
			raw c.test:2222 = deny network.allowedDomains
			any c.test:443 = deny network.allowedDomains
			tls d.test:8443 = allow A3
			tls d.test:443 = deny network.allowedDomains
			GET e.test:8085 / = allow A4
			GET e.test:8091 / = deny network.allowedDomains
			tls e.test:8085 = deny protocol
			raw x.f.test:443 = allow A5
			raw f.test:443 = deny network.allowedDomains
			tls x.g.test:443 = allow A6
			raw x.g.test:443 = deny protocol
			+GET x.g.test:443 /any = allow A6
			raw 10.1.2.3:5432 = allow A7
			tls 10.1.2.3:443 = allow A8
			raw 10.1.2.3:443 = deny protocol
			raw 10.1.2.3:22 = deny address
		`},
		{"methods", network.Options{Allowed: []string{"GET,HEAD http://a.test", "POST http://b.test:8080/api"}}, `
			any a.test:80 = allow A0
			GET a.test:80 / = allow A0
			HEAD a.test:80 /x = allow A0
			POST a.test:80 / = deny request
			get a.test:80 / = deny request
			Get a.test:80 / = deny request
			GETX a.test:80 / = deny request
			GE a.test:80 / = deny request
			GET,HEAD a.test:80 / = deny request
			HEAD,GET a.test:80 / = deny request
			OPTIONS a.test:80 * = deny request
			- a.test:80 / = deny request
			tls a.test:80 = deny protocol
			raw a.test:80 = deny protocol
			+GET a.test:80 / = deny protocol
			POST b.test:8080 /api = allow A1
			POST b.test:8080 /api/x = allow A1
			POST b.test:8080 /apis = deny request
			GET b.test:8080 /api = deny request
		`},
		{"paths", network.Options{Allowed: []string{"http://a.test/pub", "http://b.test/pub/", "http://c.test/a%20b/%C3%A9", "http://d.test/"}}, `
			GET a.test:80 /pub = allow A0
			GET a.test:80 /pub/ = allow A0
			GET a.test:80 /pub/x/y = allow A0
			GET a.test:80 /pub?x=/../../ = allow A0
			GET a.test:80 /pub/x?a=%2e%2e = allow A0
			GET a.test:80 /p%75b/x = deny request
			GET a.test:80 /%70%75%62 = deny request
			GET a.test:80 /pub/%41 = allow A0
			GET a.test:80 /pub/a:b@c!$&'()+,=~ = allow A0
			GET a.test:80 /pub/.hidden = allow A0
			GET a.test:80 /pub/..x = allow A0
			GET a.test:80 /pub/%C3%A9 = allow A0
			GET a.test:80 /public = deny request
			GET a.test:80 /PUB = deny request
			GET a.test:80 /Pub/x = deny request
			GET a.test:80 / = deny request
			GET a.test:80 /x/pub = deny request
			GET a.test:80 = deny request
			GET a.test:80 ?/pub = deny request
			GET a.test:80 pub = deny request
			OPTIONS a.test:80 * = deny request
			GET a.test:80 http://a.test/pub = deny request
			GET a.test:80 /pub/.. = deny request
			GET a.test:80 /pub/../x = deny request
			GET a.test:80 /pub/./x = deny request
			GET a.test:80 /./pub = deny request
			GET a.test:80 /pub/... = deny request
			GET a.test:80 /pub/x. = deny request
			GET a.test:80 /pub/%2e%2e/x = deny request
			GET a.test:80 /pub/%2E./x = deny request
			GET a.test:80 /pub/.%2e/x = deny request
			GET a.test:80 /pub/%2e/x = deny request
			GET a.test:80 /pub/%252e%252e/x = deny request
			GET a.test:80 /pub/%25 = deny request
			GET a.test:80 /pub%2fx = deny request
			GET a.test:80 /pub/..%2fx = deny request
			GET a.test:80 /pub/%5c..%5cx = deny request
			GET a.test:80 /pub\..\x = deny request
			GET a.test:80 /pub/\x = deny request
			GET a.test:80 //pub = deny request
			GET a.test:80 /pub//x = deny request
			GET a.test:80 /pub;x/../y = deny request
			GET a.test:80 /pub;x = deny request
			GET a.test:80 /pub/..;/x = deny request
			GET a.test:80 /pub/%3bx = deny request
			GET a.test:80 /pub/%3fx = deny request
			GET a.test:80 /pub/%23x = deny request
			GET a.test:80 /pub#x = deny request
			GET a.test:80 /pub/%00 = deny request
			GET a.test:80 /pub/%0d%0ax = deny request
			GET a.test:80 /pub/%7f = deny request
			GET a.test:80 /pub/% = deny request
			GET a.test:80 /pub/%2 = deny request
			GET a.test:80 /pub/%g0 = deny request
			GET a.test:80 /pub/%u002e = deny request
			GET a.test:80 /pub/%c0%ae%c0%ae/x = deny request
			GET a.test:80 /pub/%ff = deny request
			GET a.test:80 /pub/%ef%bc%8e%ef%bc%8e/x = deny request
			GET a.test:80 /pub/%ef%bc%8fx = deny request
			GET a.test:80 /pub/%e2%80%8bx = deny request
			GET a.test:80 /pub/x%20 = deny request
			GET a.test:80 /pub/x::$DATA = deny request
			GET a.test:80 /pub/é = deny request
			GET b.test:80 /pub/ = allow A1
			GET b.test:80 /pub/x = allow A1
			GET b.test:80 /pub = deny request
			GET b.test:80 /pubx = deny request
			GET c.test:80 /a%20b/%c3%a9/x = allow A2
			GET c.test:80 /%61%20b/%C3%A9 = deny request
			GET c.test:80 /a+b/%C3%A9 = deny request
			GET d.test:80 /any/../where = allow A3
			OPTIONS d.test:80 * = allow A3
		`},
		{"deny beats allow", network.Options{
			Allowed: []string{"a.test", "*.b.test", "tcp://c.test:443", "d.test", "tcp://d.test:80", "e.test:25", "f.test"},
			Denied:  []string{"a.test:8080", "x.b.test", "https://c.test", "http://d.test/admin", "*:25", "DELETE,PUT http://f.test", "tcp://f.test:9000", "https://f.test:8443"},
		}, `
			tls a.test:443 = allow A0
			any a.test:8080 = deny D0
			tls y.b.test:443 = allow A1
			any x.b.test:443 = deny D1
			any x.b.test:22 = deny D1
			tls c.test:443 = deny D2
			raw c.test:443 = deny D2
			GET c.test:443 / = allow A2
			any c.test:443 = allow A2
			tls d.test:443 = allow A3
			tls d.test:80 = allow A3
			GET d.test:80 / = allow A3
			GET d.test:80 /adminx = allow A3
			GET d.test:80 /admin = deny D3
			GET d.test:80 /admin/x = deny D3
			GET d.test:80 /ADMIN/x = deny D3
			GET d.test:80 /%61dmin = deny D3
			GET d.test:80 /a/../admin = deny D3
			GET d.test:80 /x/.. = deny D3
			GET d.test:80 //admin = deny D3
			GET d.test:80 /admin;x = deny D3
			GET d.test:80 /admin%2f = deny D3
			GET d.test:80 /%2561dmin = deny D3
			GET d.test:80 /admin. = deny D3
			GET d.test:80 /admin%20 = deny D3
			GET d.test:80 /admin::$INDEX_ALLOCATION = deny D3
			GET d.test:80 /%ef%bd%81dmin = deny D3
			GET d.test:80 /adm%c4%b1n = deny D3
			GET d.test:80 /x\..\admin = deny D3
			GET d.test:80 /% = deny D3
			OPTIONS d.test:80 * = deny D3
			GET d.test:80 = allow A3
			GET d.test:8080 /admin = allow A3
			raw d.test:80 = deny D3
			any e.test:25 = deny D4
			GET f.test:80 / = allow A6
			DELETE f.test:80 / = deny D5
			delete f.test:80 / = deny D5
			Put f.test:80 / = deny D5
			PUTS f.test:80 / = allow A6
			X,Y f.test:80 / = deny D5
			- f.test:80 / = deny D5
			any f.test:9000 = deny D6
			tls f.test:9000 = deny D6
			GET f.test:9000 / = deny D6
			tls f.test:8443 = deny D7
			GET f.test:8443 / = allow A6
			any f.test:8443 = allow A6
		`},
		{"every host denied in part", network.Options{AllowPublic: true, Allowed: []string{"10.0.0.1"}, Denied: []string{"http://*", "POST http://*:443", "tcp://*:8000-9000"}}, `
			tls a.test:443 = allow network.allowPublic
			any a.test:80 = allow network.allowPublic
			GET a.test:80 / = deny D0
			GET 10.0.0.1:80 / = deny D0
			tls 10.0.0.1:80 = allow A0
			tls 8.8.8.8:443 = allow network.allowPublic
			GET a.test:443 / = allow network.allowPublic
			POST a.test:443 / = deny D1
			+POST a.test:443 / = deny D1
			+post a.test:443 / = deny D1
			+GET a.test:443 / = allow network.allowPublic
			any a.test:8443 = deny D2
			tls 8.8.8.8:8443 = deny D2
		`},
		{"read inside TLS", network.Options{Allowed: []string{"a.test", "GET http://a.test:443/pub"}, Denied: []string{"http://a.test:443/admin", "http://b.test:443"}}, `
			tls a.test:443 = allow A0
			+GET a.test:443 / = allow A0
			+POST a.test:443 /x = allow A0
			+GET a.test:443 /admin = deny D0
			+GET a.test:443 /x/%2e%2e/admin = deny D0
			GET a.test:443 /admin = deny D0
		`},
		{"public", network.Options{AllowPublic: true, Allowed: []string{"tcp://git.test:22", "mail.test:25", "GET http://odd.test:81/pub"}}, `
			tls a.test:443 = allow network.allowPublic
			GET a.test:80 /x = allow network.allowPublic
			tls a.test:5432 = allow network.allowPublic
			raw a.test:443 = deny protocol
			raw a.test:5432 = deny protocol
			any a.test:25 = deny port
			any a.test:22 = deny port
			raw a.test:22 = deny port
			any 8.8.8.8:53 = deny port
			tls 8.8.8.8:853 = deny port
			tls 8.8.8.8:443 = allow network.allowPublic
			raw git.test:22 = allow A0
			raw git.test:443 = deny protocol
			tls mail.test:25 = allow A1
			raw mail.test:25 = deny protocol
			GET odd.test:81 /pub = allow A2
			GET odd.test:81 / = deny request
			any 10.0.0.1:443 = deny address
			any 169.254.169.254:80 = deny address
			any [::ffff:127.0.0.1]:443 = deny address
		`},
		{"asking", network.Options{Ask: true, Allowed: []string{"https://a.test", "GET http://b.test/pub"}, Denied: []string{"d.test"}}, `
			any c.test:443 = ask network.ask
			tls c.test:443 = ask network.ask
			GET c.test:80 / = ask network.ask
			raw c.test:443 = deny protocol
			any c.test:22 = deny port
			any c.test:25 = deny port
			tls a.test:443 = allow A0
			GET a.test:443 / = deny protocol
			GET a.test:80 / = ask network.ask
			GET b.test:80 /pub = allow A1
			GET b.test:80 /x = deny request
			POST b.test:80 /pub = deny request
			any d.test:443 = deny D0
			any 10.0.0.1:443 = deny address
			any 8.8.8.8:443 = ask network.ask
		`},
		{"nothing", network.Options{}, `
			any a.test:443 = deny network.allowedDomains
			tls a.test:443 = deny network.allowedDomains
			raw a.test:443 = deny network.allowedDomains
			GET a.test:80 / = deny network.allowedDomains
			any a.test:22 = deny network.allowedDomains
			any 8.8.8.8:443 = deny network.allowedDomains
		`},
		{"an address with limits", network.Options{Allowed: []string{"a.test", "GET http://10.0.0.1/pub", "http://[fd00::/8]/pub", "tcp://127.0.0.1:5432"}}, `
			GET 10.0.0.1:80 /pub/x = allow A1
			GET 10.1:80 /pub = allow A1
			GET 10.0.0.1:80 /x = deny request
			POST 10.0.0.1:80 /pub = deny request
			tls 10.0.0.1:80 = deny protocol
			any 10.0.0.1:443 = deny address
			GET [fd00::7]:80 /pub = allow A2
			GET [fd00::7]:80 /x = deny request
			raw 127.0.0.1:5432 = allow A3
			raw [::ffff:127.0.0.1]:5432 = allow A3
			raw [::1]:5432 = deny address
		`},
	}
}

// asked puts the question of a case.
func asked(t *testing.T, p *network.Policy, question string) network.Decision {
	t.Helper()
	first, rest, _ := strings.Cut(question, " ")
	target, path, _ := strings.Cut(rest, " ")
	h, port, err := network.ParseTarget(target)
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	r := network.Request{Host: h, Port: port, Path: path}
	switch first {
	case "any":
		return p.Judge(h, port)
	case "tls", "raw":
		r.Protocol, r.Path = network.Protocol(first), ""
	case "-":
		r.Protocol = network.HTTP
	default:
		var inside bool
		r.Protocol = network.HTTP
		if r.Method, inside = strings.CutPrefix(first, "+"); inside {
			r.Protocol = network.TLS
		}
	}
	d := p.JudgeRequest(r)
	if whole := p.Judge(h, port); whole.Verdict == deny && d.Verdict != deny {
		t.Errorf("%s: %s, but Judge refuses the host: %+v", question, d.Verdict, whole)
	}
	return d
}

func TestJudgeRequest(t *testing.T) {
	n := 0
	for _, tt := range requestCases() {
		p := compiled(t, tt.o)
		short := func(d network.Decision) string {
			for letter, field := range map[string]string{"A": "network.allowedDomains[", "D": "network.deniedDomains["} {
				if rest, ok := strings.CutPrefix(d.Rule, field); ok {
					i, _, _ := strings.Cut(rest, "]")
					return string(d.Verdict) + " " + letter + i
				}
			}
			return string(d.Verdict) + " " + d.Rule
		}
		for line := range strings.Lines(tt.cases) {
			i := strings.LastIndex(line, " = ")
			if i < 0 {
				continue
			}
			n++
			question, want := strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+3:])
			d := asked(t, p, question)
			if short(d) != want || explained(d) != "" {
				t.Errorf("%s: %s: %s, want %s: %+v", tt.name, question, short(d), want, d)
			}
		}
	}
	if n < 240 {
		t.Errorf("only %d cases were looked at", n)
	}
}

// TestDecisionsAreShown holds that what a program sent is quoted in a decision.
func TestDecisionsAreShown(t *testing.T) {
	p := compiled(t, network.Options{Allowed: []string{"GET http://a.test/pub"}, Denied: []string{"http://b.test/x"}})
	for _, host := range []string{"a.test", "b.test"} {
		h, _ := network.Canonical(host)
		d := p.JudgeRequest(network.Request{Host: h, Port: 80, Protocol: network.HTTP, Method: "P\x1b\r\n", Path: "/x\x1b[2J\u202e?secret=hunter2" + strings.Repeat("y", 10_000)})
		if s := fmt.Sprint(d); d.Verdict != deny || len(s) > 1000 || strings.ContainsAny(s, "\x1b\r\n\u202e") || strings.Contains(s, "hunter2") {
			t.Errorf("%s: %.1000q", host, s)
		}
	}
}

func TestMode(t *testing.T) {
	for want, o := range map[string]network.Options{
		"none":        {AllowPrivate: true, Denied: []string{"a.test"}, AllowLocalBinding: true},
		"allow-list":  {Allowed: []string{"a.test"}},
		"ask":         {Allowed: []string{"a.test"}, Ask: true},
		"open-public": {AllowPublic: true, Ask: true},
	} {
		if p := compiled(t, o); p.Mode() != want || p.Open() != (want != "none") {
			t.Errorf("%+v: %s %v, want %s", o, p.Mode(), p.Open(), want)
		}
	}
}
