package grant

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Bounds of the contents of grants, manifests and policies.
const (
	maxCapabilities = 256
	maxMeets        = 2048 // of boxes of two parties
	maxID           = 256
	maxPath         = 4096
	maxName         = 128
)

// boxes reads capabilities, whose place field is, and returns them in normal form.
func boxes(field string, list []Capability) ([]*box, error) {
	if len(list) > maxCapabilities {
		return nil, invalid(field, strconv.Itoa(len(list))+" capabilities are too many", "name at most "+strconv.Itoa(maxCapabilities))
	}
	out := make([]box, len(list))
	for i := range list {
		var hosts network.Hosts
		if part, why, hint := list[i].fault(&hosts); why != "" {
			return nil, invalid(field+"["+strconv.Itoa(i)+"]."+part, why, hint)
		}
		out[i] = boxOf(&list[i], hosts)
	}
	return normal(out), nil
}

// fault says which field of a capability is wrong, and why. Those that its rule
// of hosts names it puts into hosts.
func (c *Capability) fault(hosts *network.Hosts) (part, why, hint string) {
	switch c.Kind {
	case FSRead, FSWrite, FSList, NetHTTP, Browser, Process, Temp, GPU:
	default:
		return "kind", quoted(string(c.Kind)) + " is no kind of capability", "use fs.read, fs.write, fs.list, net.http, browser, proc, tmp or gpu"
	}
	if part := c.alien(); part != "" {
		return part, "the field is not one of " + string(c.Kind), "leave it out, or correct the kind"
	}
	switch c.Kind {
	case FSRead, FSWrite, FSList:
		return "path", pathFault(c.Path), "write an absolute path like /workspace/src"
	case NetHTTP:
		return c.netFault(hosts)
	case Browser:
		if len(c.Actions) == 0 || len(c.Actions) > len(actions) {
			return "actions", "no action is named, or more than there are", "name some of " + strings.Join(actions, ", ")
		}
		for i, a := range c.Actions {
			if wordOf(actions, a) == 0 {
				return "actions[" + strconv.Itoa(i) + "]", quoted(a) + " is no action of a browser", "name some of " + strings.Join(actions, ", ")
			}
		}
	case Process:
		return "tool", programFault(c.Tool), "name a program like git, as it is found in PATH"
	case Temp:
		if c.Bytes < 0 {
			return "bytes", "an amount below 0", "write 0 for what limits say"
		}
	case GPU:
		if !isName(c.Class) {
			return "class", "no class of GPU is named", ""
		}
	}
	return "", "", ""
}

// alien returns the first field that is set but does not belong to the kind.
func (c *Capability) alien() string {
	fs := c.Kind == FSRead || c.Kind == FSWrite || c.Kind == FSList
	net := c.Kind == NetHTTP
	switch {
	case c.Path != "" && !fs:
		return "path"
	case c.Host != "" && !net:
		return "host"
	case c.Port != 0 && !net:
		return "port"
	case c.Scheme != "" && !net:
		return "scheme"
	case len(c.Methods) > 0 && !net:
		return "methods"
	case len(c.Actions) > 0 && c.Kind != Browser:
		return "actions"
	case c.Tool != "" && c.Kind != Process:
		return "tool"
	case c.Bytes != 0 && c.Kind != Temp:
		return "bytes"
	case c.Class != "" && c.Kind != GPU:
		return "class"
	}
	return ""
}

func (c *Capability) netFault(hosts *network.Hosts) (part, why, hint string) {
	var err error
	if *hosts, err = network.ParseHosts(c.Host); err != nil {
		return "host", err.(*sandbox.Error).Message, err.(*sandbox.Error).Hint
	}
	if c.Port < 0 || c.Port > 65535 {
		return "port", "the port is none from 1 to 65535", "write 0 for the usual ones"
	}
	if c.Scheme != "" && c.Scheme != "http" && c.Scheme != "https" {
		return "scheme", quoted(c.Scheme) + " is none of http and https", "leave it out for both"
	}
	if len(c.Methods) == 0 || len(c.Methods) > len(methods)+1 {
		return "methods", "no method is named, or more than there are", `name some, or "*" for all`
	}
	if i := slices.IndexFunc(c.Methods, func(m string) bool { return m != "*" && wordOf(methods, m) == 0 }); i >= 0 {
		return "methods[" + strconv.Itoa(i) + "]", quoted(c.Methods[i]) + " is no method that can be allowed", "use " + strings.Join(methods, ", ")
	}
	return "", "", ""
}

// pathFault says what is wrong with a path that a rule names.
func pathFault(p string) string {
	switch why := illegible(p, maxPath); {
	case p == "":
		return "no path is named"
	case why != "":
		return "the path " + why
	case p[0] != '/':
		return quoted(p) + " is no absolute path"
	case path.Clean(p) != p:
		return quoted(p) + " has a part that says nothing or leads back"
	}
	return ""
}

// illegible says why text is not what it looks like, or "".
func illegible(s string, limit int) string {
	if len(s) > limit {
		return "is longer than " + strconv.Itoa(limit) + " bytes"
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			return "has a control character in it"
		case c >= utf8.RuneSelf:
			return illegibleRunes(s)
		}
	}
	return ""
}

func illegibleRunes(s string) string {
	if !utf8.ValidString(s) {
		return "is no UTF-8"
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}) {
		return "has a control character in it"
	}
	return ""
}

// programFault says what is wrong with the name of a program.
func programFault(name string) string {
	switch {
	case name == "":
		return "no program is named"
	case len(name) > maxName || name[0] == '-' || name == "." || name == "..":
		return quoted(name) + " is no name of a program"
	}
	for _, c := range []byte(name) {
		if !letterOrDigit(c) && strings.IndexByte("._+-", c) < 0 {
			return quoted(name) + " is no name of a program"
		}
	}
	return ""
}

// isName reports whether s can name a tool or a class.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if !letterOrDigit(c) && strings.IndexByte("_-.:/@", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// isID reports whether s can be an id: it is visible ASCII.
func isID(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return s != "" && len(s) <= maxID
}

func letterOrDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// quoted makes what others wrote safe to show, and short.
func quoted(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

func invalid(field, message, hint string) error {
	return fault(sandbox.CodeValidation, field, "", message, hint)
}

// fault is the one way in which this package refuses: field is the rule.
func fault(code sandbox.Code, field, resource, message, hint string) error {
	return &sandbox.Error{Code: code, Op: "grant", Field: field, Resource: resource, Message: message, Hint: hint}
}
