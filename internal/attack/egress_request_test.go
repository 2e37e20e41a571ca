package attack

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A spoken is an HTTP conversation. In the sent text {u} is the beginning of a
// URL of the allowed host, if the request line needs it, {h} its host and
// port, and {o} those of a host that no rule names.
type spoken struct {
	send    string
	answers []int // statuses of the responses, in order; then the connection is closed unless the last is below 400 or 403
	reach   int   // requests that reach the host
}

// refusedHeads returns heads that are refused: one response, and the
// connection is closed.
func refusedHeads() map[string]string {
	const get = "GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n"
	const post = "POST {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n"
	const smuggled = "0\r\n\r\nGET {u}/smuggled HTTP/1.1\r\nHost: {h}\r\n\r\n"
	return map[string]string{
		"length and chunks":               post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"chunks and length":               post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + smuggled,
		"length 0 and chunks":             post + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"blank before the colon":          post + "Content-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n" + smuggled,
		"tab before the colon":            post + "Transfer-Encoding\t: chunked\r\n\r\n" + smuggled,
		"folded encoding":                 post + "Transfer-Encoding:\r\n chunked\r\n\r\n" + smuggled,
		"folded with a tab":               post + "X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"folded first field":              "GET {u}/ HTTP/1.1\r\n Host: {h}\r\n\r\n",
		"unknown encoding":                post + "Transfer-Encoding: xchunked\r\n\r\n" + smuggled,
		"encoding identity":               post + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n" + smuggled,
		"identity alone":                  post + "Transfer-Encoding: identity\r\n\r\n" + smuggled,
		"identity and chunked":            post + "Transfer-Encoding: identity, chunked\r\n\r\n" + smuggled,
		"chunked and identity":            post + "Transfer-Encoding: chunked, identity\r\n\r\n" + smuggled,
		"gzip and chunked":                post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + smuggled,
		"chunked twice in one":            post + "Transfer-Encoding: chunked, chunked\r\n\r\n" + smuggled,
		"chunked twice":                   post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"chunked and something":           post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n" + smuggled,
		"chunked with a parameter":        post + "Transfer-Encoding: chunked;q=1\r\n\r\n" + smuggled,
		"chunked in quotes":               post + "Transfer-Encoding: \"chunked\"\r\n\r\n" + smuggled,
		"chunked with a vertical tab":     post + "Transfer-Encoding: \x0bchunked\r\n\r\n" + smuggled,
		"chunked with a NUL":              post + "Transfer-Encoding: chunked\x00\r\n\r\n" + smuggled,
		"chunked with a no-break space":   post + "Transfer-Encoding: chunked\xa0\r\n\r\n" + smuggled,
		"chunked with a dotless letter":   post + "Transfer-Encoding: chun\xe2\x84\xaaed\r\n\r\n" + smuggled, // KELVIN SIGN, which folds to k
		"empty encoding":                  post + "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\n" + smuggled,
		"chunks in HTTP/1.0":              "POST {u}/ HTTP/1.0\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"two lengths":                     post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + smuggled,
		"the same length twice":           post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + smuggled,
		"a list of lengths":               post + "Content-Length: 5, 5\r\n\r\n" + smuggled,
		"length with a plus":              post + "Content-Length: +5\r\n\r\n" + smuggled,
		"length with a minus":             post + "Content-Length: -5\r\n\r\n" + smuggled,
		"minus nothing":                   post + "Content-Length: -0\r\n\r\n" + smuggled,
		"length in hex":                   post + "Content-Length: 0x5\r\n\r\n" + smuggled,
		"length with a letter":            post + "Content-Length: 5a\r\n\r\n" + smuggled,
		"length with a blank":             post + "Content-Length: 1 5\r\n\r\n" + smuggled,
		"length with a fraction":          post + "Content-Length: 5.0\r\n\r\n" + smuggled,
		"length with an underscore":       post + "Content-Length: 1_0\r\n\r\n" + smuggled,
		"length beyond all bounds":        post + "Content-Length: 99999999999999999999\r\n\r\n" + smuggled,
		"length that wraps around":        post + "Content-Length: 18446744073709551621\r\n\r\n" + smuggled,
		"length in other digits":          post + "Content-Length: \xd9\xa5\r\n\r\n" + smuggled,
		"empty length":                    post + "Content-Length:\r\n\r\n" + smuggled,
		"lines without CR":                "GET {u}/greeting.txt HTTP/1.1\nHost: {h}\n\n",
		"one line without CR":             get + "X: y\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"empty line without CR":           get + "\nGET {u}/smuggled HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"CR within a line":                get + "X: y\rTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"two CR":                          get + "X: y\r\r\n\r\n",
		"NUL in a field":                  get + "X: y\x00z\r\n\r\n",
		"DEL in a field":                  get + "X: y\x7fz\r\n\r\n",
		"escape in a field":               get + "X: \x1b[2J\r\n\r\n",
		"line without colon":              get + "nonsense\r\n\r\n",
		"empty name":                      get + ": nothing\r\n\r\n",
		"name with a blank":               get + "Content Length: 5\r\n\r\n",
		"name with a slash":               get + "X/Y: 5\r\n\r\n",
		"name beyond ASCII":               get + "Ho\xc5\xbft: {o}\r\n\r\n", // LONG S, which folds to s
		"a second Host":                   get + "Host: {o}\r\n\r\n",
		"the same Host twice":             get + "Host: {h}\r\n\r\n",
		"a second Host in capitals":       get + "HOST: {o}\r\n\r\n",
		"another Host":                    "GET {u}/greeting.txt HTTP/1.1\r\nHost: {o}\r\n\r\n",
		"no Host":                         "GET {u}/greeting.txt HTTP/1.1\r\n\r\n",
		"empty Host":                      "GET {u}/greeting.txt HTTP/1.1\r\nHost:\r\n\r\n",
		"Host with a list":                "GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}, {o}\r\n\r\n",
		"Host with a user name":           "GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}@{o}\r\n\r\n",
		"Host with a path":                "GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}/x\r\n\r\n",
		"Host with a tab":                 "GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\tx\r\n\r\n",
		"Host with another port":          "GET {u}/greeting.txt HTTP/1.1\r\nHost: files.test:81\r\n\r\n",
		"Host without the port":           "GET {u}/greeting.txt HTTP/1.1\r\nHost: files.test\r\n\r\n",
		"Host with an empty port":         "GET {u}/greeting.txt HTTP/1.1\r\nHost: files.test:\r\n\r\n",
		"Host folded":                     "GET {u}/greeting.txt HTTP/1.1\r\nHost:\r\n {o}\r\n\r\n",
		"a URL with another Host":         "GET http://{o}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a URL of https":                  "GET https://{h}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a URL of ftp":                    "GET ftp://{h}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a URL of a file":                 "GET file:///etc/passwd HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a URL with a user name":          "GET http://a:b@{h}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a URL of one slash":              "GET http:/{h}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a URL of three slashes":          "GET http:///{h}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"only a host":                     "GET {h} HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"star":                            "OPTIONS * HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a fragment":                      "GET {u}/greeting.txt#x HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a blank in the path":             "GET {u}/greeting.txt x HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a tab in the path":               "GET {u}/greeting.txt\tx HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"bytes beyond ASCII in the path":  "GET {u}/gr\xc3\xbc\xc3\x9fe HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"two blanks":                      "GET  {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"tabs for blanks":                 "GET\t{u}/greeting.txt\tHTTP/1.1\r\nHost: {h}\r\n\r\n",
		"a blank at the end":              "GET {u}/greeting.txt HTTP/1.1 \r\nHost: {h}\r\n\r\n",
		"a blank at the start":            " GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"an empty line first":             "\r\nGET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"HTTP/0.9":                        "GET {u}/greeting.txt\r\n\r\n",
		"HTTP/1.2":                        "GET {u}/greeting.txt HTTP/1.2\r\nHost: {h}\r\n\r\n",
		"HTTP/1.10":                       "GET {u}/greeting.txt HTTP/1.10\r\nHost: {h}\r\n\r\n",
		"HTTP/2.0":                        "GET {u}/greeting.txt HTTP/2.0\r\nHost: {h}\r\n\r\n",
		"lower case http":                 "GET {u}/greeting.txt http/1.1\r\nHost: {h}\r\n\r\n",
		"preface of HTTP/2":               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"method of odd signs":             "G(T {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"no method":                       "{u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"method of 33 letters":            strings.Repeat("A", 33) + " {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"201 fields":                      get + strings.Repeat("X: y\r\n", 201) + "\r\n",
		"head of 64 KiB":                  get + "X: " + strings.Repeat("y", 64<<10) + "\r\n\r\n",
		"head of 64 KiB that has no line": strings.Repeat("y", 64<<10),
		"request line of 70,000":          "GET {u}/" + strings.Repeat("y", 70000) + " HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"CONNECT with a length":           "CONNECT {h} HTTP/1.1\r\nHost: {h}\r\nContent-Length: 5\r\n\r\nhello",
		"CONNECT with chunks":             "CONNECT {h} HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"CONNECT with another Host":       "CONNECT {h} HTTP/1.1\r\nHost: {o}\r\n\r\n",
		"CONNECT to a URL":                "CONNECT http://{h}/ HTTP/1.1\r\nHost: {h}\r\n\r\n",
		"connect in lower case":           "connect {h} HTTP/1.1\r\nHost: {h}\r\n\r\n",
	}
}

// A carrier is a way to send requests to the proxy.
type carrier struct {
	name   string
	scheme string
	fixed  bool // the host is that of the tunnel
	open   func(*egressRig) *talk
}

func carriers() []carrier {
	return []carrier{
		{"direct", "http", false, func(r *egressRig) *talk { return newTalk(r.dial()) }},
		{"CONNECT", "http", true, func(r *egressRig) *talk { return r.connect(r.net.At("http", testenv.Files)) }},
		{"SOCKS", "http", true, func(r *egressRig) *talk { k, _ := r.socks(testenv.Files, r.net.Port("http")); return k }},
		{"intercepted", "https", true, func(r *egressRig) *talk { return r.intercepted(testenv.Files) }},
	}
}

// fill puts the hosts into a text.
func (c carrier) fill(r *egressRig, text string) string {
	u := ""
	if !c.fixed {
		u = "http://" + r.net.At(c.scheme, testenv.Files)
	}
	return strings.NewReplacer("{u}", u, "{h}", r.net.At(c.scheme, testenv.Files), "{o}", r.net.At(c.scheme, testenv.Other)).Replace(text)
}

func TestRefusedHeads(t *testing.T) {
	r := egressNewRig(t, setup{secret: []string{testenv.Files}})
	for name, text := range refusedHeads() {
		for _, c := range carriers() {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				hits, before, k := r.net.Hits(testenv.Files), r.count(), c.open(r)
				sent := c.fill(r, text)
				method, _, _ := strings.Cut(sent, " ")
				go io.WriteString(k, sent) // the proxy may close it before everything is sent
				status, body, closes := k.answer(method)
				rule := "request"
				if status == 0 && c.scheme == "http" && c.fixed {
					rule = "protocol" // not HTTP, so the tunnel ends without a response
				} else if status < 400 || status == 403 || status > 505 || status == 502 || !closes {
					t.Errorf("%d %v %s", status, closes, body)
				}
				if rest, _ := io.ReadAll(k.br); len(rest) != 0 {
					t.Errorf("there is another answer: %q", rest)
				}
				k.Close()
				if e := r.refusals(before, 1)[0]; e.Rule != rule {
					t.Errorf("%+v", e)
				}
				if n := r.net.Hits(testenv.Files); n != hits {
					t.Errorf("%d requests reached the host", n-hits)
				}
			})
		}
	}
	r.holds()
}

// conversations returns requests that are accepted, at least some of them.
func conversations() map[string]spoken {
	const get = "GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n"
	const gone = "GET {u}/gone HTTP/1.1\r\nHost: {h}\r\n"
	return map[string]spoken{
		"two requests":                 {get + "\r\n" + get + "\r\n", []int{200, 200}, 2},
		"pipelined to another host":    {get + "\r\nGET {u}/greeting.txt HTTP/1.1\r\nHost: {o}\r\n\r\n" + get + "\r\n", []int{200, 400}, 1},
		"pipelined CONNECT elsewhere":  {get + "\r\nCONNECT {o} HTTP/1.1\r\nHost: {h}\r\n\r\n", []int{200, 400}, 1},
		"pipelined URL elsewhere":      {get + "\r\nGET http://{o}/ HTTP/1.1\r\nHost: {h}\r\n\r\n", []int{200, 400}, 1},
		"request in a body":            {"GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\nContent-Length: 23\r\n\r\nGET /smuggled HTTP/1.1\n", []int{200}, 1},
		"request in a body of chunks":  {"GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: CHUNKED\r\n\r\n5\r\nGET /\r\n0\r\n\r\n" + gone + "\r\n", []int{200, 404}, 2},
		"extension of a chunk":         {"GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n" + gone + "\r\n", []int{200, 404}, 2},
		"Connection names Host":        {get + "Connection: Host\r\n\r\n", []int{200}, 1},
		"Connection names credentials": {get + "Authorization: Basic YTpi\r\nConnection: Authorization, Proxy-Authorization\r\n\r\n", []int{200}, 1},
		"Connection names the length":  {get + "Connection: Content-Length, Transfer-Encoding\r\nContent-Length: 5\r\n\r\nhello" + gone + "\r\n", []int{200, 404}, 2},
		"Connection names nonsense":    {get + "Connection: ,,\x80, a b, :, close-not\r\n\r\n", []int{200}, 1},
		"upgrade to HTTP/2":            {get + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + gone + "\r\n", []int{200, 404}, 2},
		"upgrade to TLS":               {get + "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n", []int{200}, 1},
		"lower case method":            {get + "\r\nget {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\n\r\n", []int{200, 405}, 2},
		"200 fields":                   {get + strings.Repeat("X: y\r\n", 199) + "\r\n", []int{200}, 1},
		"head of 60 KiB":               {get + "X: " + strings.Repeat("y", 60<<10) + "\r\n\r\n", []int{200}, 1},
		"credentials of nobody":        {get + "Proxy-Authorization: Basic " + strings.Repeat("A", 40000) + "\r\n\r\n", []int{200}, 1},
		"credentials of no scheme":     {get + "Proxy-Authorization: \x80\r\n\r\n", []int{200}, 1},
		"no body that is announced":    {get + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", []int{200}, 1},
		"expects something else":       {get + "Expect: the-unexpected\r\n\r\n", []int{200}, 1},
		"trailers that frame":          {"GET {u}/greeting.txt HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nContent-Length: 7\r\nHost: {o}\r\n\r\n" + gone + "\r\n", []int{200, 404}, 2},
		"two names for one Host":       {"GET {u}/greeting.txt HTTP/1.1\r\nHost: FILES.test.:{p}\r\n\r\n", []int{200}, 1},
	}
}

func TestConversations(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { testConversations(t, false) })
	t.Run("frames", func(t *testing.T) { testConversations(t, true) })
}

func testConversations(t *testing.T, framed bool) {
	r := egressNewRig(t, setup{framed: framed, secret: []string{testenv.Files}})
	for name, s := range conversations() {
		for _, c := range carriers() {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				hits, k := r.net.Hits(testenv.Files), c.open(r)
				defer k.Close()
				go io.WriteString(k, strings.ReplaceAll(c.fill(r, s.send), "{p}", itoa(r.net.Port(c.scheme))))
				for _, want := range s.answers {
					status, body, _ := k.answer("GET")
					for status == 100 {
						status, body, _ = k.answer("GET")
					}
					if status != want {
						t.Errorf("%d, want %d: %s", status, want, body)
					}
				}
				if s.answers[len(s.answers)-1] == 400 {
					if rest, _ := io.ReadAll(k.br); len(rest) != 0 {
						t.Errorf("there is another answer: %q", rest)
					}
				}
				if n := r.net.Hits(testenv.Files) - hits; n != s.reach {
					t.Errorf("%d requests reached the host, want %d", n, s.reach)
				}
			})
		}
	}
	r.holds()
}

// TestPipelinedElsewhere checks that a URL of another host is a new decision.
func TestPipelinedElsewhere(t *testing.T) {
	r := egressNewRig(t, setup{})
	k := newTalk(r.dial())
	for range 3 {
		fmt.Fprintf(k, "GET http://%[1]s/greeting.txt HTTP/1.1\r\nHost: %[1]s\r\n\r\n", r.net.At("http", testenv.Files))
		fmt.Fprintf(k, "GET http://%[1]s/greeting.txt HTTP/1.1\r\nHost: %[1]s\r\n\r\n", r.net.At("http", testenv.Other))
		fmt.Fprintf(k, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", r.trap.At())
	}
	for range 3 {
		for _, want := range []int{200, 403, 403} {
			if status, body, _ := k.answer("GET"); status != want {
				t.Fatalf("%d, want %d: %s", status, want, body)
			}
		}
	}
	fmt.Fprintf(k, "CONNECT %s HTTP/1.1\r\n\r\n", r.trap.At())
	if status, _, _ := k.answer("CONNECT"); status != 403 {
		t.Errorf("CONNECT: %d", status)
	}
	r.refusals(0, 7)
}
