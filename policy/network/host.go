package network

import (
	"net/netip"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// maxHost is the longest name that DNS takes, without the dot at its end.
const maxHost = 253

// A Host is a host's name or address, made canonical. Hosts that are spelled
// differently and mean the same are equal with ==. The zero Host is none.
type Host struct {
	name string     // lower case, no dot at its end; empty for an address
	addr netip.Addr // IPv4 where it is one, however it was written
}

// Canonical reads a host as a program gave it: a name, an IPv4 address in any
// of its spellings (127.1, 0x7f.0.0.1, 017700000001), an IPv6 address with or
// without brackets.
//
// What two programs may read differently is an error with
// [sandbox.CodeValidation]: control characters, blanks, anything but ASCII,
// percent signs, user names, zones, empty labels. A label may have an
// underscore in it, except the last one.
func Canonical(host string) (Host, error) {
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		var closed bool
		if inner, closed = strings.CutSuffix(inner, "]"); !closed || !strings.Contains(inner, ":") {
			return Host{}, invalid(host, "has brackets, which belong around IPv6 addresses only", "")
		}
	}
	if why, hint := oddSign(inner); why != "" {
		return Host{}, invalid(host, why, hint)
	}
	if strings.Contains(inner, ":") {
		a, err := netip.ParseAddr(inner)
		if err != nil {
			return Host{}, invalid(host, "is no IPv6 address", "a port is given separately")
		}
		return Host{addr: a.Unmap()}, nil
	}
	name := strings.ToLower(strings.TrimSuffix(inner, "."))
	labels := strings.Split(name, ".")
	if numeric(labels[len(labels)-1]) {
		a, ok := parseIPv4(labels)
		if !ok {
			return Host{}, invalid(host, "ends in a number and is no IPv4 address", "")
		}
		return Host{addr: a}, nil
	}
	if why := badName(name, labels); why != "" {
		return Host{}, invalid(host, why, "")
	}
	return Host{name: name}, nil
}

// HostOf returns the Host of an address. A zone is left out.
func HostOf(a netip.Addr) Host { return Host{addr: a.WithZone("").Unmap()} }

// ParseTarget reads "host:port"; an IPv6 address needs its brackets. The port
// is decimal, from 1 on.
func ParseTarget(target string) (Host, uint16, error) {
	i := strings.LastIndexByte(target, ':')
	if i < 0 {
		return Host{}, 0, invalid(target, "has no port", "write HOST:PORT")
	}
	host := target[:i]
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return Host{}, 0, invalid(target, "has an IPv6 address without brackets", "write [ADDRESS]:PORT")
	}
	port, ok := parsePort(target[i+1:])
	if !ok {
		return Host{}, 0, invalid(target, "has no port from 1 to 65535", "write HOST:PORT")
	}
	h, err := Canonical(host)
	return h, port, err
}

// String is the one spelling that is shown, logged and given to who resolves
// or dials. IPv6 addresses have no brackets.
func (h Host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// Addr returns the address, and whether the host is one rather than a name.
func (h Host) Addr() (netip.Addr, bool) { return h.addr, h.addr.IsValid() }

// IsZero reports whether h is no host.
func (h Host) IsZero() bool { return h == Host{} }

// Target writes h and port as [ParseTarget] reads them.
func (h Host) Target(port uint16) string {
	s := h.String()
	if strings.Contains(s, ":") {
		s = "[" + s + "]"
	}
	return s + ":" + strconv.Itoa(int(port))
}

// oddSign says what is wrong with the characters of a host.
func oddSign(host string) (why, hint string) {
	switch {
	case host == "" || host == ".":
		return "is empty", ""
	case len(host) > maxHost+1:
		return "is longer than a name can be", ""
	}
	for i := range len(host) {
		switch c := host[i]; {
		case c < 0x20 || c == 0x7f:
			return "has a control character in it", ""
		case c >= 0x80:
			return "is not ASCII", "write an international name in its ASCII form, which starts with xn--"
		case c == '%':
			return "has a percent sign in it: zones and encoded characters are not taken", ""
		case c == '@':
			return "has a user name in it", "write the host alone"
		case c == '/', c == '\\', c == '?', c == '#':
			return "is a URL or path rather than a host", "write the host alone"
		case alphanumeric(c), c == '-', c == '.', c == ':', c == '_':
		default:
			return "has " + strconv.QuoteRune(rune(c)) + " in it, which no host has", ""
		}
	}
	return "", ""
}

// badName says what is wrong with a name of lower case.
func badName(name string, labels []string) string {
	if len(name) > maxHost {
		return "is longer than a name can be"
	}
	for i, l := range labels {
		switch {
		case l == "":
			return "has an empty label"
		case len(l) > 63:
			return "has a label of more than 63 characters"
		case l[0] == '-' || l[len(l)-1] == '-':
			return "has a label with a hyphen at an end"
		case i == len(labels)-1 && strings.Contains(l, "_"):
			return "has an underscore in its last label"
		}
	}
	return ""
}

// numeric reports whether a last label makes the host an IPv4 address: that is
// how those read it who take more than four decimal numbers.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// parseIPv4 reads an address as inet_aton(3) does: one to four numbers,
// decimal, octal or hexadecimal, of which the last fills what is left.
func parseIPv4(labels []string) (netip.Addr, bool) {
	if len(labels) > 4 {
		return netip.Addr{}, false
	}
	var n uint64
	for i, l := range labels {
		v, ok := parseNumber(l)
		if !ok {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(labels)-1 {
			bits = 8 * (4 - i)
		}
		if v>>bits != 0 {
			return netip.Addr{}, false
		}
		n = n<<bits | v
	}
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), true
}

// parseNumber reads one number of an IPv4 address.
func parseNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"):
		base, s = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	if strings.Trim(s, "0123456789abcdef") != "" {
		return 0, false // ParseUint takes signs and underscores otherwise
	}
	n, err := strconv.ParseUint(s, base, 32)
	return n, err == nil
}

func parsePort(s string) (uint16, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// quoted makes what a program said safe to show, and short.
func quoted(s string) string {
	if len(s) > 100 {
		return strconv.Quote(s[:100]) + "…"
	}
	return strconv.Quote(s)
}

func invalid(host, why, hint string) error {
	e := sandbox.Errorf(sandbox.CodeValidation, "read host", "%s %s", quoted(host), why)
	e.Hint = hint
	return e
}
