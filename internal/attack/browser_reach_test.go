package attack_test

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// techniques are requests that a page can make without navigating; each is the
// body of a function of the address u.
var techniques = map[string]string{
	"fetch":              `fetch(u).catch(() => 0)`,
	"fetch without CORS": `fetch(u, {mode: 'no-cors'}).catch(() => 0)`,
	"posted fetch":       `fetch(u, {mode: 'no-cors', method: 'POST', body: 'x'}).catch(() => 0)`,
	"preflight":          `fetch(u, {method: 'PUT', headers: {'X-A': 'b'}}).catch(() => 0)`,
	"kept alive fetch":   `fetch(u, {mode: 'no-cors', keepalive: true}).catch(() => 0)`,
	"XMLHttpRequest":     `const x = new XMLHttpRequest(); x.open('GET', u); x.send()`,
	"WebSocket":          `new WebSocket(u.replace('http', 'ws'))`,
	"EventSource":        `new EventSource(u)`,
	"beacon":             `navigator.sendBeacon(u, 'x')`,
	"image":              `new Image().src = u`,
	"responsive image":   `add('img').srcset = u`,
	"script":             `add('script').src = u`,
	"module":             `const e = document.createElement('script'); e.type = 'module'; e.src = u; document.head.append(e)`,
	"import":             `import(u).catch(() => 0)`,
	"style sheet":        `const e = document.createElement('link'); e.rel = 'stylesheet'; e.href = u; document.head.append(e)`,
	"imported style":     `add('style').textContent = '@import url("' + u + '")'`,
	"background":         `const e = add('div'); e.textContent = 'x'; e.style.background = 'url("' + u + '")'`,
	"font":               `add('style').textContent = '@font-face { font-family: f' + n + '; src: url("' + u + '") }'; const e = add('p'); e.textContent = 'x'; e.style.fontFamily = 'f' + n`,
	"video":              `const e = document.createElement('video'); e.preload = 'auto'; e.src = u; document.body.append(e)`,
	"audio":              `const e = add('audio'); e.preload = 'auto'; e.src = u`,
	"poster":             `add('video').poster = u`,
	"button of a form":   `const e = document.createElement('input'); e.type = 'image'; e.src = u; document.body.append(e)`,
	"picture in SVG":     `document.body.insertAdjacentHTML('beforeend', '<svg><image href="' + u + '"/></svg>')`,
	"frame":              `add('iframe').src = u`,
	"object":             `const e = document.createElement('object'); e.data = u; document.body.append(e)`,
	"embed":              `const e = document.createElement('embed'); e.src = u; document.body.append(e)`,
	"worker":             `new Worker(URL.createObjectURL(new Blob(['fetch("' + u + '", {mode: "no-cors"}).catch(() => 0)'])))`,
	"worker's script":    `new Worker(URL.createObjectURL(new Blob(['importScripts("' + u + '")'])))`,
	"shared worker":      `new SharedWorker(URL.createObjectURL(new Blob(['fetch("' + u + '", {mode: "no-cors"}).catch(() => 0)'])))`,
	"window":             `open(u)`,
	"preload":            `const e = document.createElement('link'); e.rel = 'preload'; e.as = 'fetch'; e.href = u; document.head.append(e)`,
	"frame with a form":  `add('iframe').src = '/way/posted%20form?to=' + encodeURIComponent(u)`,
	"redirected fetch":   `fetch('/way/redirect?to=' + encodeURIComponent(u), {mode: 'no-cors'}).catch(() => 0)`,
	"redirected image":   `new Image().src = '/way/redirect?to=' + encodeURIComponent(u)`,
	"redirected frame":   `add('iframe').src = '/way/redirect?to=' + encodeURIComponent(u)`,
	"refreshed frame":    `add('iframe').src = '/way/meta%20refresh?to=' + encodeURIComponent(u)`,
	"frame with script":  `add('iframe').src = '/way/script?to=' + encodeURIComponent(u)`,
}

// loopbacks are spellings and names of loopback, some of which the resolver of
// the proxy knows.
var loopbacks = []string{
	"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "017700000001", "127.0.0.1.", "localhost.",
	"LOCALHOST", "a.localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "127.0.0.2", "0", "%31%32%37.0.0.1", "127。0。0。1", "loop.test", "changing.test",
}

// addressesOf makes addresses of hosts and ports.
func addressesOf(hosts []string, ports ...int) (out []string) {
	for _, h := range hosts {
		for _, p := range ports {
			out = append(out, "http://"+h+":"+itoa(p)+"/x")
		}
	}
	return out
}

// reaching returns a page of the attacker in a browser with a canary, and the
// ports that must not be reached: the canary's, that of the protocol, the trap
// on the host, and the CDP proxy's own.
func reaching(t *testing.T) (r *rig, c *client, k *canary, arrived *forwarded, ports []int) {
	t.Helper()
	r = on(t, "", "")
	arrived = &forwarded{}
	r.net.Handle(evil, attacker())
	r.net.Handle(allowed, arrived)
	here := testenv.Reply{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	r.net.Names.Set("changing.test", here, testenv.Reply{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}, here)
	req := r.of("a", evil, allowed, "loop.test", "changing.test")
	c = r.client(t, req)
	k = newCanary(t, r.inside(t, req))
	return r, c, k, arrived, []int{k.port, 9222, r.trap.Port(), bridgePort(t, c.served)}
}

func bridgePort(t testing.TB, s display.Served) int {
	t.Helper()
	u, err := url.Parse(s.HTTPURL)
	must(t, err)
	at, err := netip.ParseAddrPort(u.Host)
	must(t, err)
	return int(at.Port())
}

// TestPagesAndLoopback holds that pages reach no loopback address, inside or at the
// host, in one browser.
func TestPagesAndLoopback(t *testing.T) {
	t.Parallel()
	r, c, k, arrived, ports := reaching(t)
	t.Run("requests", func(t *testing.T) { pagesReachLoopback(t, r, c, k, arrived, ports) })
	t.Run("spellings", func(t *testing.T) { pagesSpellLoopback(t, r, c, k, arrived, ports) })
	t.Run("datagrams", func(t *testing.T) { pagesSendDatagrams(t, r, c, k) })
}

// pagesReachLoopback checks that no request of a web page reaches a port
// inside, at the host's loopback, or at the CDP proxy.
func pagesReachLoopback(t *testing.T, r *rig, c *client, k *canary, arrived *forwarded, ports []int) {
	few := append(addressesOf([]string{"127.0.0.1"}, ports...), addressesOf([]string{"localhost", "[::1]", "loop.test"}, k.port)...)
	few = append(few, addressesOf([]string{"loop.test"}, r.trap.Port())...)
	s := ""
	for name, body := range techniques {
		t.Run(name, func(t *testing.T) {
			if s == "" {
				_, s = c.page(r.net.URL("http", evil, "/"))
			} else {
				c.must(s, "Page.navigate", object{"url": r.net.URL("http", evil, "/")}, nil)
			}
			c.shows(s, "evil")
			path := "/by/" + strings.NewReplacer(" ", "-", "'", "").Replace(name)
			attempt(t, c, s, body, append(few, r.net.URL("http", allowed, path)))
			await(t, "the control arrives", func() bool { return arrived.has(path) })
			k.sings()
			if got := k.visits(); len(got) > 0 || r.trap.Hits() > 0 {
				t.Errorf("inside %q, host %d", got, r.trap.Hits())
			}
			if name == "window" { // it has opened others
				c.empty(t)
				s = ""
			}
		})
	}
	c.empty(t)
	for _, at := range []string{"127.0.0.1:" + itoa(ports[0]), "127.0.0.1:9222", "127.0.0.1:" + itoa(ports[2]), "127.0.0.1:" + itoa(ports[3]), "loop.test:" + itoa(ports[2])} {
		await(t, "the proxy refuses "+at, func() bool { return r.refused()[at] > 0 })
	}
}

// pagesSpellLoopback checks the same for all spellings, names that resolve
// to loopback and one whose address changes.
func pagesSpellLoopback(t *testing.T, r *rig, c *client, k *canary, arrived *forwarded, ports []int) {
	_, s := c.page(r.net.URL("http", evil, "/"))
	c.shows(s, "evil")
	for i, host := range loopbacks {
		t.Run(host, func(t *testing.T) {
			for name, ports := range map[string][]int{"fetch without CORS": ports, "frame": {k.port}} {
				path := "/spelled/" + itoa(i) + "/" + strings.ReplaceAll(name, " ", "-")
				attempt(t, c, s, techniques[name], append(addressesOf([]string{host}, ports...), r.net.URL("http", allowed, path)))
				await(t, "the control arrives", func() bool { return arrived.has(path) })
			}
			k.sings()
			if got := k.visits(); len(got) > 0 || r.trap.Hits() > 0 {
				t.Errorf("inside %q, host %d", got, r.trap.Hits())
			}
		})
	}
}

// attempt has a page run body for each address, each time with a user gesture.
func attempt(t testing.TB, c *client, session, body string, addresses []string) {
	t.Helper()
	for n, u := range addresses {
		address, err := json.Marshal(u)
		must(t, err)
		script := `(() => { const add = name => document.body.appendChild(document.createElement(name)), u = ` + string(address) + `, n = ` + itoa(n) + `;
			try { ` + body + ` } catch {} ; return 1 })()`
		if v, ok := c.eval(session, script); !ok || v != 1.0 {
			t.Fatalf("the page does not do it: %v", v)
		}
	}
}

// datagrams are requests that do not use a proxy at all.
var datagrams = map[string]string{
	"STUN":          `const p = new RTCPeerConnection({iceServers: [{urls: 'stun:HOST:PORT'}]}); p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o)); new Promise(r => { p.onicegatheringstatechange = () => p.iceGatheringState === 'complete' && r(1); setTimeout(() => r(1), 4000) })`,
	"TURN":          `const p = new RTCPeerConnection({iceServers: [{urls: 'turn:HOST:PORT', username: 'a', credential: 'b'}]}); p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o)); new Promise(r => { p.onicegatheringstatechange = () => p.iceGatheringState === 'complete' && r(1); setTimeout(() => r(1), 4000) })`,
	"TURN over TCP": `const p = new RTCPeerConnection({iceServers: [{urls: 'turn:HOST:PORT?transport=tcp', username: 'a', credential: 'b'}]}); p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o)); new Promise(r => { p.onicegatheringstatechange = () => p.iceGatheringState === 'complete' && r(1); setTimeout(() => r(1), 4000) })`,
	"WebTransport":  `new Promise(r => { try { new WebTransport('https://HOST:PORT/').ready.then(() => r('open'), () => r(1)) } catch { r(1) } })`,
}

// pagesSendDatagrams checks that WebRTC and WebTransport reach no port
// inside either. The control is a datagram of a program inside, which arrives.
func pagesSendDatagrams(t *testing.T, r *rig, c *client, k *canary) {
	_, s := c.page(r.net.URL("http", evil, "/"))
	c.shows(s, "evil")
	for name, script := range datagrams {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			t.Run(name+"/"+host, func(t *testing.T) {
				script := strings.NewReplacer("HOST", host, "PORT", itoa(k.port)).Replace(script)
				if v, ok := c.eval(s, "{ "+script+" }"); !ok || v == "open" {
					t.Errorf("%v, %v", v, ok)
				}
				k.sings()
				if got := k.visits(); len(got) > 0 {
					t.Errorf("it arrives: %q", got)
				}
			})
		}
	}
	sh(t, k.c, `python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", `+itoa(k.port)+`))'`)
	await(t, "the control arrives", func() bool { return len(k.visits()) > 0 })
	k.forget()
}
