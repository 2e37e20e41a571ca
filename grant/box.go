package grant

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A box is a capability made ready for arithmetic. Of every kind the meet of
// two boxes is a box again, or nothing, and says exactly what both say.
type box struct {
	kind   Kind
	path   string
	hosts  network.Hosts
	host   string // hosts as they are spelled
	port   int    // 0 is the usual ones, with an empty scheme only
	scheme string
	words  words // methods or actions
	name   string
	bytes  int64 // 0 is without bound
}

// words is a set of methods of HTTP, or of actions of a browser, by their
// places in the table.
type words uint32

// methods are the known methods, sorted. CONNECT is not among them: it opens a
// tunnel and requests no resource.
var methods = []string{
	"COPY", "DELETE", "GET", "HEAD", "LOCK", "MKCOL", "MOVE", "OPTIONS", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "QUERY",
	"REPORT", "SEARCH", "TRACE", "UNLOCK",
}

// actions are what can be done with a browser, sorted.
var actions = []string{"click", "download", "extract", "open", "pdf", "screenshot", "type", "upload", "wait"}

// allMethods is the set of all.
func allMethods() words { return 1<<len(methods) - 1 }

// wordOf returns the set of one word, none when the table does not have it.
func wordOf(table []string, word string) words {
	if i, ok := slices.BinarySearch(table, word); ok {
		return 1 << i
	}
	return 0
}

// list spells the set.
func (w words) list(table []string) []string {
	out := make([]string, 0, bits.OnesCount32(uint32(w)))
	for i, word := range table {
		if w&(1<<i) != 0 {
			out = append(out, word)
		}
	}
	return out
}

// boxOf makes the box of a capability that was found well-formed. hosts are
// those of its rule.
func boxOf(c *Capability, hosts network.Hosts) box {
	b := box{kind: c.Kind}
	switch c.Kind {
	case FSRead, FSWrite, FSList:
		b.path = c.Path
	case NetHTTP:
		b.hosts, b.host, b.scheme, b.port = hosts, hosts.String(), c.Scheme, c.Port
		if b.port == 0 {
			b.port = portOf(c.Scheme)
		}
		for _, m := range c.Methods {
			if m == "*" {
				b.words = allMethods()
			}
			b.words |= wordOf(methods, m)
		}
	case Browser:
		for _, a := range c.Actions {
			b.words |= wordOf(actions, a)
		}
	case Process:
		b.name = c.Tool
	case Temp:
		b.bytes = c.Bytes
	case GPU:
		b.name = c.Class
	}
	return b
}

// portOf is the port of a scheme, 0 without one.
func portOf(scheme string) int {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

// capability returns the box as a Capability. known are the methods of the box,
// nil before the first call has computed them.
func (b *box) capability(known []string) Capability {
	c := Capability{Kind: b.kind}
	switch b.kind {
	case FSRead, FSWrite, FSList:
		c.Path = b.path
	case NetHTTP:
		c.Host, c.Port, c.Scheme, c.Methods = b.host, b.port, b.scheme, known
		switch {
		case known != nil:
		case b.words == allMethods():
			c.Methods = []string{"*"}
		default:
			c.Methods = b.words.list(methods)
		}
	case Browser:
		c.Actions = b.words.list(actions)
	case Process:
		c.Tool = b.name
	case Temp:
		c.Bytes = b.bytes
	case GPU:
		c.Class = b.name
	}
	return c
}

// holds reports whether b includes everything that o allows, regardless of its
// wording.
func (b *box) holds(o *box) bool {
	if b.kind != o.kind {
		return false
	}
	switch b.kind {
	case FSRead, FSWrite, FSList:
		return below(o.path, b.path)
	case NetHTTP:
		return (b.scheme == "" || b.scheme == o.scheme) && portHolds(b.port, o.port) && b.hosts.Holds(o.hosts)
	case Temp:
		return b.bytes == 0 || o.bytes != 0 && o.bytes <= b.bytes
	}
	return b.name == o.name
}

func portHolds(port, other int) bool {
	return port == other || port == 0 && network.UsualPort(uint16(other))
}

// empty reports whether a box that has words has none.
func (b *box) empty() bool { return b.words == 0 && (b.kind == NetHTTP || b.kind == Browser) }

// meet sets out to what both say, and reports false when that is nothing. Both
// are of one kind.
func (b *box) meet(o, out *box) bool {
	both := b.words & o.words
	if both == 0 && (b.kind == NetHTTP || b.kind == Browser) {
		return false
	}
	if b.kind == NetHTTP {
		return b.meetNet(o, out, both)
	}
	switch { // of these one lies in the other, or they are apart
	case b.holds(o):
		*out = *o
	case o.holds(b):
		*out = *b
	default:
		return false
	}
	out.words = both
	return true
}

func (b *box) meetNet(o, out *box, both words) bool {
	less, hosts := o, b.hosts.Holds(o.hosts)
	if !hosts {
		less, hosts = b, o.hosts.Holds(b.hosts)
	}
	port, scheme := b.port, b.scheme
	switch {
	case !hosts:
		return false
	case portHolds(b.port, o.port):
		port = o.port
	case !portHolds(o.port, b.port):
		return false
	}
	switch {
	case scheme == "":
		scheme = o.scheme
	case o.scheme != "" && o.scheme != scheme:
		return false
	}
	*out = *less
	out.port, out.scheme, out.words = port, scheme, both
	return true
}

// order compares boxes; it distinguishes all boxes that differ in more than
// their wording.
func (b *box) order(o *box) int {
	return cmp.Or(
		strings.Compare(string(b.kind), string(o.kind)), strings.Compare(b.path, o.path),
		strings.Compare(b.host, o.host), cmp.Compare(b.port, o.port), strings.Compare(b.scheme, o.scheme),
		strings.Compare(b.name, o.name), cmp.Compare(b.bytes, o.bytes),
	)
}

// below reports whether the clean path is folder or lies below it.
func below(path, folder string) bool {
	if folder == "/" {
		return true
	}
	rest, ok := strings.CutPrefix(path, folder)
	return ok && (rest == "" || rest[0] == '/')
}
