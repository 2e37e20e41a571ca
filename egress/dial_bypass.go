package egress

import (
	"net/netip"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxBypass bounds the entries of NO_PROXY.
const maxBypass = 10_000

// A bypass lists the hosts reached without a proxy.
type bypass struct {
	all     bool
	entries []bypassEntry
}

// A bypassEntry is one entry of a bypass: a name, a suffix that starts with a
// dot, or a range of addresses.
type bypassEntry struct {
	name   string
	suffix string
	prefix netip.Prefix
	port   uint16 // 0: any
}

// parseBypass parses NO_PROXY. An invalid entry is an error: ignoring it would
// send traffic through a proxy that must bypass it.
func parseBypass(list string) (bypass, error) {
	var b bypass
	fields := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	if len(fields) > maxBypass {
		return bypass{}, badBypass(strconv.Itoa(len(fields)) + " entries are too many")
	}
	for i, f := range fields {
		if f == "*" {
			b.all = true
			continue
		}
		e, ok := parseEntry(f)
		if !ok {
			return bypass{}, badBypass("entry " + strconv.Itoa(i+1) + " is no host, suffix or range: " + quoted(f))
		}
		b.entries = append(b.entries, e)
	}
	return b, nil
}

func badBypass(why string) error {
	e := sandbox.Errorf(sandbox.CodeValidation, "read proxy", "%s", why)
	e.Field, e.Hint = "NO_PROXY", "list hosts, .suffixes, addresses and ranges, separated by commas"
	return e
}

func parseEntry(text string) (bypassEntry, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		return bypassEntry{prefix: p.Masked()}, true
	}
	var e bypassEntry
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.HasSuffix(text[:i], "]") || !strings.Contains(text[:i], ":")) {
		var ok bool
		if e.port, ok = parsePort(text[i+1:]); !ok {
			return bypassEntry{}, false
		}
		text = text[:i]
	}
	text, star := strings.CutPrefix(text, "*")
	name, dot := strings.CutPrefix(text, ".")
	h, err := network.Canonical(name)
	a, literal := h.Addr()
	switch {
	case err != nil, star && !dot, dot && literal:
		return bypassEntry{}, false
	case literal:
		e.prefix = netip.PrefixFrom(a, a.BitLen())
	case dot:
		e.suffix = "." + h.String()
	default:
		e.name, e.suffix = h.String(), "."+h.String()
	}
	return e, true
}

func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0
}

// matches reports whether an address of h is reached directly.
func (b bypass) matches(h network.Host, to netip.AddrPort) bool {
	if b.all {
		return true
	}
	name := h.String()
	if _, literal := h.Addr(); literal {
		name = ""
	}
	for _, e := range b.entries {
		if e.port != 0 && e.port != to.Port() {
			continue
		}
		if e.prefix.IsValid() && e.prefix.Contains(to.Addr()) || name != "" && (name == e.name || e.suffix != "" && strings.HasSuffix(name, e.suffix)) {
			return true
		}
	}
	return false
}
