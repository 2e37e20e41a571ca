package egress

import "slices"

// The relevant extensions.
const (
	extServerName        = 0
	extALPN              = 16
	extSupportedVersions = 43
	extECH               = 0xfe0d
	extESNI              = 0xffce // predecessor of ECH
)

// A text is a part of a message, consumed from the front.
type text []byte

// take returns the next n bytes.
func (t *text) take(n int) (text, bool) {
	if n > len(*t) {
		return nil, false
	}
	b := (*t)[:n]
	*t = (*t)[n:]
	return b, true
}

// number reads an integer of so many bytes, at most three.
func (t *text) number(bytes int) (int, bool) {
	b, ok := t.take(bytes)
	n := 0
	for _, c := range b {
		n = n<<8 | int(c)
	}
	return n, ok
}

// vector reads a byte string preceded by its length.
func (t *text) vector(lengthBytes int) (text, bool) {
	n, ok := t.number(lengthBytes)
	if !ok {
		return nil, false
	}
	return t.take(n)
}

// read reads the body of a ClientHello.
func read(body text) (hello, error) {
	version, ok := body.number(2)
	if _, random := body.take(32); !ok || !random {
		return hello{}, helloMalformed("it ends too early")
	}
	if session, ok := body.vector(1); !ok || len(session) > 32 {
		return hello{}, helloMalformed("its session id")
	}
	if suites, ok := body.vector(2); !ok || len(suites) == 0 || len(suites)%2 != 0 {
		return hello{}, helloMalformed("its cipher suites")
	}
	if methods, ok := body.vector(1); !ok || len(methods) == 0 {
		return hello{}, helloMalformed("its compression methods")
	}
	if version < 0x0300 || version > 0x0304 {
		return hello{}, helloMalformed("its version")
	}
	var h hello
	if len(body) > 0 {
		all, ok := body.vector(2)
		if !ok || len(body) > 0 {
			return hello{}, helloMalformed("the length of its extensions")
		}
		if err := h.extensions(all); err != nil {
			return hello{}, err
		}
	}
	if h.Versions == nil {
		h.Versions = []uint16{uint16(version)}
	}
	return h, nil
}

func (h *hello) extensions(all text) error {
	seen := map[int]bool{}
	for len(all) > 0 {
		kind, _ := all.number(2)
		data, ok := all.vector(2)
		if !ok {
			return helloMalformed("the length of an extension")
		}
		if seen[kind] {
			return helloMalformed("an extension is there twice")
		}
		seen[kind] = true
		var err error
		switch kind {
		case extServerName:
			h.ServerName, err = serverName(data)
		case extALPN:
			h.ALPN, err = protocols(data)
		case extSupportedVersions:
			h.Versions, err = versions(data)
		case extECH, extESNI:
			h.ECH = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serverName returns the only name of its list.
func serverName(data text) (string, error) {
	list, ok := data.vector(2)
	if !ok || len(data) > 0 || len(list) == 0 {
		return "", helloMalformed("the length of its list of names")
	}
	kind, _ := list.number(1)
	name, ok := list.vector(2)
	switch {
	case !ok || len(name) == 0:
		return "", helloMalformed("the length of the name")
	case kind != 0:
		return "", helloMalformed("a name that is no host's")
	case len(list) > 0:
		return "", helloMalformed("it has several names")
	case len(name) > 255:
		return "", helloMalformed("the name is too long")
	case name[len(name)-1] == '.':
		return "", helloMalformed("the name has a dot at its end")
	case slices.ContainsFunc(name, odd):
		return "", helloMalformed("the name has signs in it that no host's name has")
	}
	return string(name), nil
}

func odd(c byte) bool {
	switch {
	case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '.', c == '_', c == ':':
		return false
	}
	return true
}

func protocols(data text) ([]string, error) {
	list, ok := data.vector(2)
	if !ok || len(data) > 0 || len(list) == 0 {
		return nil, helloMalformed("the length of its protocols")
	}
	var out []string
	for len(list) > 0 {
		p, ok := list.vector(1)
		if !ok || len(p) == 0 {
			return nil, helloMalformed("the length of a protocol")
		}
		out = append(out, string(p))
	}
	return out, nil
}

func versions(data text) ([]uint16, error) {
	list, ok := data.vector(1)
	if !ok || len(data) > 0 || len(list) == 0 || len(list)%2 != 0 {
		return nil, helloMalformed("the length of its versions")
	}
	out := make([]uint16, 0, len(list)/2)
	for len(list) > 0 {
		v, _ := list.number(2)
		out = append(out, uint16(v))
	}
	return out, nil
}
