package grant

import (
	"maps"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Bounds of what is sent and followed.
const (
	maxHops        = 10
	maxHeaders     = 64
	maxHeaderBytes = 32 << 10
	maxSelector    = 4096
)

// request judges a request over HTTP.
func (g *Guard) request(v *Vetted) error {
	if wordOf(methods, v.Method) == 0 {
		return invalid("op.method", quoted(v.Method)+" is no method that can be used", "use one in capitals, like GET")
	}
	if err := checkHeader(v.Header); err != nil {
		return err
	}
	v.Header = maps.Clone(v.Header)
	a, err := g.reader.Hop(v.URL)
	if err != nil {
		return unread(err)
	}
	if a.Kind != network.Web {
		return invalid("op.url", "the address is none of http or https", "write https://HOST/PATH")
	}
	if err := g.address(v, a.URL, v.Method); err != nil {
		return err
	}
	if most := g.profile.Limits.MaxBytesOut; int64(len(v.Data)) > most {
		return blocked("profile.limits.maxBytesOut", v.Host.Target(v.Port), "at most "+strconv.FormatInt(most, 10)+" bytes may be sent at once", "send less")
	}
	return nil
}

// address judges a canonical address of http or https.
func (g *Guard) address(v *Vetted, address, method string) error {
	u, err := url.Parse(address)
	if err != nil {
		return invalid("op.url", "the address cannot be read", "write https://HOST/PATH")
	}
	port := portOf(u.Scheme)
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return invalid("op.url", "the port is none from 1 to 65535", "")
		}
	}
	host, err := network.Canonical(u.Hostname())
	if err != nil {
		return unread(err)
	}
	v.URL, v.Host, v.Port = address, host, uint16(port)
	what := string(NetHTTP) + ":" + method + ":" + u.Scheme + "://" + u.Host
	word := wordOf(methods, method)
	if err := g.need(&box{kind: NetHTTP, hosts: network.HostsOf(host), port: port, scheme: u.Scheme, words: word}, what); err != nil {
		return err
	}
	if v.Capability == "" {
		v.Capability = what
	}
	target := host.Target(v.Port)
	if word&^g.methods != 0 {
		return blocked(g.listRule("methods", g.sources.Lists.Methods, func(m string) bool { return m == method || m == "*" }), target, "the method "+method+" is not listed", "use one that is")
	}
	return g.listed(u, host, v.Port, method)
}

// listed checks an address against the lists of domains.
func (g *Guard) listed(u *url.URL, host network.Host, port uint16, method string) error {
	r := network.Request{Host: host, Port: port, Protocol: network.TLS, Method: method, Path: u.RequestURI()}
	if u.Scheme == "http" {
		r.Protocol = network.HTTP
	}
	d := g.hosts.JudgeRequest(r)
	if d.Verdict == policy.Allow {
		return nil
	}
	deny := strings.HasPrefix(d.Rule, "network.deniedDomains")
	switch {
	case deny:
		return blocked("policy.denied.domains", host.Target(port), d.Message, d.Hint)
	case g.profile.Lists.Domains == nil: // no list was asked
		return nil
	}
	return blocked("policy.lists.domains", host.Target(port), d.Message, d.Hint)
}

// browse judges what is done with a browser.
func (g *Guard) browse(v *Vetted, s State) error {
	act := map[OpKind]string{
		OpBrowserNav: "open", OpBrowserScreenshot: "screenshot", OpBrowserExtract: "extract",
		OpBrowserPDF: "pdf", OpBrowserWait: "wait",
		OpBrowserClick: "click", OpBrowserType: "type", OpBrowserUpload: "upload", OpBrowserDownload: "download",
	}[v.Kind]
	touches := act == "click" || act == "type" || act == "upload" || act == "download"
	switch {
	case (touches || v.Gone) && v.Selector == "":
		return invalid("op.selector", "nothing on the page is named", "write a selector of CSS")
	case act == "wait" && (v.Selector == "") == (v.Text == ""):
		return invalid("op.selector", "exactly one of selector and text is waited for", "write a selector of CSS, or a text")
	case illegible(v.Selector, maxSelector) != "":
		return invalid("op.selector", "the selector "+illegible(v.Selector, maxSelector), "")
	case argFault(v.Text) != "":
		return invalid("op.text", "the text "+argFault(v.Text), "")
	}
	what := string(Browser) + ":" + act
	v.Capability = what
	if err := g.need(&box{kind: Browser, words: wordOf(actions, act)}, what); err != nil {
		return err
	}
	if int64(len(v.Text)) > g.profile.Limits.MaxBytesOut {
		return blocked("profile.limits.maxBytesOut", "", "the text is longer than may be sent at once", "type less")
	}
	switch v.Kind {
	case OpBrowserUpload:
		err := g.workspace(v, FSRead)
		v.Capability = what + ":" + v.Path
		return err
	case OpBrowserDownload:
		err := g.workspace(v, FSWrite)
		v.Capability = what + ":" + v.Path
		return err
	case OpBrowserNav:
		return g.visit(v, s)
	}
	return nil
}

// workspace judges a path as one of the kind, and that it is one of the
// workspace: a browser has no other files.
func (g *Guard) workspace(v *Vetted, kind Kind) error {
	if err := g.place(v, kind, nil); err != nil {
		return err
	}
	if root := g.profile.Mappings.Root; !below(v.Path, root) {
		return blocked("policy.mappings", v.Path, "a browser has the files of the workspace and no others", "use a path below "+root)
	}
	return nil
}

// visit judges an address that a browser is to open: of the web, or of a file
// of the workspace.
func (g *Guard) visit(v *Vetted, s State) error {
	a, err := g.reader.Judge(v.URL)
	if err != nil {
		return unread(err)
	}
	if most := g.profile.Limits.MaxDepth; s.Depth >= most {
		return blocked("profile.limits.maxDepth", "", "at most "+strconv.Itoa(most)+" pages may be opened by a call", "open fewer")
	}
	switch a.Kind {
	case network.Web:
		if err := g.address(v, a.URL, "GET"); err != nil {
			return err
		}
		v.Capability += ":" + v.Host.Target(v.Port)
		return nil
	case network.Workspace:
		file := Vetted{Operation: Operation{Kind: OpFsRead, Path: g.profile.Mappings.Root + "/" + a.File}}
		if err := g.place(&file, FSRead, nil); err != nil {
			return err
		}
		v.URL, v.Capability = "workspace:"+a.File, v.Capability+":"+file.Path
		if again, err := g.reader.Judge(v.URL); err != nil || again != a {
			return invalid("op.url", "the name of the file cannot be spelled in one way", "rename it")
		}
		return nil
	case network.Blank:
		v.URL = a.URL
		return nil
	}
	return blocked("op.url", "", "no address of this kind is opened", "use an address of http or https")
}

// unread returns the error for an address that its parser refused.
func unread(err error) error {
	e, ok := err.(*sandbox.Error)
	if !ok {
		return invalid("op.url", "the address cannot be read", "")
	}
	out := *e
	out.Op, out.Field = "grant", "op.url"
	return &out
}

// checkHeader reports a header that is malformed, or that would change where
// the request goes or where it ends.
func checkHeader(header map[string]string) error {
	total := 0
	for name, value := range header {
		total += len(name) + len(value)
		if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return invalid("op.header", quoted(name)+" is no name of a header", "")
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return invalid("op.header", "the header "+quoted(name)+" has a control character in its value", "")
		}
		if slices.Contains(ownHeaders(), strings.ToLower(name)) || strings.HasPrefix(strings.ToLower(name), "proxy-") {
			return blocked("op.header", name, "the header "+quoted(name)+" is not a caller's to set", "leave it out")
		}
	}
	if len(header) > maxHeaders || total > maxHeaderBytes {
		return invalid("op.header", "the headers are too many or too long", "send fewer")
	}
	return nil
}

// ownHeaders are those that say where a request goes and where it ends.
func ownHeaders() []string {
	return []string{"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
}

// ValidateHop judges what a redirect leads to, before it is followed: next is
// the request that would be sent, or the page that would be opened, and hop
// counts those before it from 1 on.
func (g *Guard) ValidateHop(next Operation, hop int, s State) (Vetted, error) {
	if next.Kind != OpNetHTTP && next.Kind != OpBrowserNav {
		return Vetted{}, invalid("op.kind", "only requests and pages have redirects", "")
	}
	if hop < 1 || hop > maxHops {
		return Vetted{}, blocked("redirect", "", "more than "+strconv.Itoa(maxHops)+" redirects", "ask for the address that they lead to")
	}
	return g.judge(next, s)
}

// ValidateMIME judges the Content-Type of an answer, as it was sent.
func (g *Guard) ValidateMIME(contentType string) error {
	list := g.profile.Lists.MIME
	if list == nil {
		return nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	_, minor, _ := strings.Cut(kind, "/")
	field := g.listRule("mime", g.sources.Lists.MIME, func(want string) bool { return holdsType(want, kind) })
	if err != nil || minor == "" {
		return blocked(field, quoted(contentType), "the answer does not say of what type it is", "")
	}
	for _, want := range list {
		if holdsType(want, kind) {
			return nil
		}
	}
	return blocked(field, quoted(kind), "the type of the answer is not listed", "ask for one that is")
}

// listRule names the rule of a list that does not contain something: the rule
// of the grant when the grant has a list of its own that does not contain it
// either.
func (g *Guard) listRule(name string, granted []string, holds func(string) bool) string {
	if granted != nil && !slices.ContainsFunc(granted, holds) {
		return "grant.lists." + name
	}
	return "policy.lists." + name
}
