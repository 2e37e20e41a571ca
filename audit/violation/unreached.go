package violation

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// failing are the texts, in small letters, by which libc, curl, wget, git, ssh,
// apt, npm, pip, Go, Python, Node, Java, Ruby, Perl, psql and mysql say that a
// name has no address or that no route leads to one.
var failing = []string{
	"could not resolve", "couldn't resolve", "unable to resolve", "failed to resolve", "cannot resolve", "can't resolve",
	"temporary failure in name resolution", "temporary failure resolving", "name or service not known", "name does not resolve",
	"nodename nor servname provided", "no address associated with hostname", "enotfound", "eai_again", "no such host", "server misbehaving",
	"unknownhostexception", "unknown host", "bad address", "could not translate host name", "unknown mysql server host",
	"nameresolutionerror", "failed to lookup address", "network is unreachable", "enetunreach", "no route to host", "ehostunreach",
	"couldn't connect to server", "could not connect to server",
	"blocked by sandbox", // by the proxy, to a program that sends it no credentials, as Java does not
}

// byAddress is how the proxy's answer to such a program says, in small letters, that
// the address of a host decides.
const byAddress = "blocked by sandbox: address"

// vague are those of naming that may also precede other things than hosts:
// Gradle cannot resolve "all files", npm a dependency. After them only a name
// with a dot or in quotes counts as a host.
var vague = []string{"failed to resolve", "could not resolve", "couldn't resolve", "unable to resolve", "cannot resolve", "can't resolve"}

// naming are the words, in lower case, after which such messages name the host;
// the most specific ones come first.
var naming = []string{
	"could not resolve host:", "couldn't resolve host", "could not resolve hostname", "could not resolve proxy:", "unable to resolve host address",
	"temporary failure resolving", "failed to resolve", "could not resolve", "couldn't resolve", "unable to resolve", "cannot resolve", "can't resolve",
	"getaddrinfo enotfound", "getaddrinfo eai_again", "getaddrinfo for host", "queryasrv enotfound", "unknownhostexception:", "unknown host",
	"could not translate host name", "unknown mysql server host", "bad address", "dial tcp: lookup", "lookup",
	"connect enetunreach", "connect ehostunreach", "failed to connect to", "connection to server at", "connect to host", "connect to", "dial tcp", "dial udp",
	"(host=", "/dev/tcp/", "connection to",
}

// maxHost is the longest name of a host.
const maxHost = 253

// unreached returns the host that a line says could not be reached for want of
// a name or a route, and the port where the line has one, which is else 0.
// missing says that a line is about that and names no host.
func unreached(line string) (host string, port uint16, missing bool) {
	line = line[max(0, len(line)-maxLine):]
	lower := strings.ToLower(line)
	if !holdsAny(lower, failing) {
		return "", 0, false
	}
	if len(lower) != len(line) {
		line = lower // letters whose small form has another length
	}
	for _, words := range naming {
		for from := 0; ; {
			i := strings.Index(lower[from:], words)
			if i < 0 {
				break
			}
			from += i + len(words)
			if host, port = hostAt(line[from:]); host != "" && (!slices.Contains(vague, words) || surely(host, line[from:])) {
				return host, port, false
			}
		}
	}
	// A URL, or PROGRAM: HOST: TEXT as libc's own programs have it.
	for _, u := range urlHosts(line) {
		return u.host, u.port, false
	}
	parts := strings.Split(line, ": ")
	for i := 1; i < len(parts); i++ {
		if holdsAny(strings.ToLower(parts[i]), failing) {
			if host, port = hostAt(parts[i-1]); host != "" && i > 1 {
				return host, port, false
			}
		}
	}
	return "", 0, true
}

// surely reports whether text begins with a host that counts as one even after
// vague words.
func surely(host, text string) bool {
	text = strings.TrimLeft(text, " :")
	return strings.ContainsAny(host, ".:") || text != "" && strings.ContainsAny(text[:1], "'\"`") || strings.HasPrefix(text, "‘") || strings.HasPrefix(text, "“")
}

// hostAt reads the host at the beginning of text, perhaps in quotes or as a
// URL, and its port after a colon, a slash or the word port.
func hostAt(text string) (host string, port uint16) {
	text = strings.TrimLeft(text, " :'\"`‘“(=")
	if _, rest, ok := strings.Cut(text, "://"); ok && strings.IndexAny(text, " \t") > len(text)-len(rest) {
		text = rest
	}
	end := strings.IndexFunc(text, func(r rune) bool {
		return !(r == '.' || r == '-' || r == '_' || r == ':' || r == '[' || r == ']' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80 && r != '’' && r != '”')
	})
	if end < 0 {
		end = len(text)
	}
	word, rest := strings.Trim(text[:end], ":."), text[end:]
	host = word
	if a, err := netip.ParseAddrPort(word); err == nil {
		return a.Addr().String(), a.Port()
	}
	if a, err := netip.ParseAddr(strings.Trim(word, "[]")); err == nil {
		host = a.String()
	} else if name, number, ok := cutLast(word, ':'); ok {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return "", 0
		}
		host, port = name, uint16(n)
	}
	if !plausible(host) {
		return "", 0
	}
	if port == 0 {
		port = portAt(rest)
	}
	return host, port
}

// portAt reads the port in what follows a host: "/80", " port 80", ", port=80".
func portAt(rest string) uint16 {
	rest = strings.TrimLeft(rest, "'\"’”),")
	for _, before := range []string{"/", " port ", " port=", " port: "} {
		after, ok := strings.CutPrefix(rest, before)
		if !ok {
			continue
		}
		after = strings.TrimLeft(after, `"'`)
		end := strings.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(after)
		}
		if n, err := strconv.ParseUint(after[:end], 10, 16); err == nil {
			return uint16(n)
		}
	}
	return 0
}

// plausible reports whether a word may be a host: an address, or a name of
// letters, digits, dots and dashes that is not a word of a message.
func plausible(word string) bool {
	if word == "" || len(word) > maxHost {
		return false
	}
	if _, err := netip.ParseAddr(word); err == nil {
		return true
	}
	if strings.ContainsAny(word, ":[]") || strings.Contains(word, "..") || strings.HasPrefix(word, "-") {
		return false
	}
	if lower := strings.ToLower(word); strings.HasSuffix(lower, "exception") || strings.HasSuffix(lower, "error") {
		return false // the class of a Java exception, which is no domain
	}
	switch strings.ToLower(word) {
	case "host", "hostname", "proxy", "address", "name", "server", "the", "tcp", "udp", "port", "error", "for", "on", "to", "a", "errno",
		"connect", "socket", "getaddrinfo", "gethostbyname", "sendto", "request", "connection":
		return false
	}
	return strings.ContainsFunc(word, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80 })
}

// A hostPort is a host with a port, which may be 0.
type hostPort struct {
	host string
	port uint16
}

// urlHosts returns the hosts of the URLs in a text, each once, at most
// maxNames.
func urlHosts(text string) (list []hostPort) {
	for range maxNames {
		before, rest, ok := strings.Cut(text, "://")
		if !ok {
			return list
		}
		text = rest
		if end := strings.IndexAny(rest, "/?#'\" \t\n)>,;"); end >= 0 {
			rest = rest[:end]
		}
		if _, after, ok := cutLast(rest, '@'); ok {
			rest = after
		}
		h := hostPort{}
		if h.host, h.port = hostAt(rest); h.host == "" {
			continue
		}
		if h.port == 0 {
			switch {
			case strings.HasSuffix(before, "https"):
				h.port = 443
			case strings.HasSuffix(before, "http"):
				h.port = 80
			}
		}
		known := false
		for _, l := range list {
			known = known || l.host == h.host
		}
		if !known {
			list = append(list, h)
		}
	}
	return list
}

// hosts looks for hosts that the command says it could not reach.
func (c *classifier) hosts(lines []string, command string) {
	before := c.judged
	defer func() { c.named = c.named || c.judged > before }()
	missing := false
	for _, line := range lines {
		host, port, unnamed := unreached(line)
		missing = missing || unnamed
		if host != "" {
			c.host(host, port, strings.Contains(strings.ToLower(line), byAddress))
		}
	}
	if missing { // and nothing says which, but perhaps the command
		for _, h := range urlHosts(command) {
			c.host(h.host, h.port, false)
		}
	}
}

// host reports a host that the rules refuse, unless the proxy has already
// refused it, which is stronger evidence.
//
// addressed means that the proxy has refused the host's address: it received
// the request, whatever the rules say about the name.
func (c *classifier) host(host string, port uint16, addressed bool) {
	if c.judged == maxJudged {
		return
	}
	c.judged++
	target, rule, denied := c.network(host, port)
	if !denied {
		return
	}
	if addressed {
		rule = "address: the rules let the name pass and not its address, which sandbox violations names"
	}
	for _, v := range c.found {
		name, _, _ := cutLast(v.Resource, ':')
		if v.Kind == sandbox.ResourceNetwork && (v.Resource == target || name == target || strings.HasPrefix(target, name+":") && name != "") {
			return
		}
	}
	v := sandbox.Violation{
		Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: target, Rule: rule, Evidence: sandbox.EvidenceStrong, Time: c.at,
	}
	c.confirmed[target] = true
	c.add(v)
}
