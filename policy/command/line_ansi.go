package command

// ansi returns what $'s' stands for. It reports false where that depends on
// the locale or on the shell's version: characters beyond ASCII by \u, NUL,
// \x{…} and unusual control characters.
func ansi(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		c := s[i]
		i++
		if c != '\\' || i == len(s) {
			out = append(out, c)
			continue
		}
		c = s[i]
		i++
		if plain, ok := ansiPlain(c); ok {
			out = append(out, plain)
			continue
		}
		n, width, ok := 0, 0, true
		switch {
		case c >= '0' && c <= '7':
			n, width = digits(s[i-1:], 3, 8)
			i += width - 1
			n &= 0xff
		case c == 'x':
			n, width = digits(s[i:], 2, 16)
			i += width
			ok = width > 0
		case c == 'u' || c == 'U':
			n, width = digits(s[i:], 4+4*int((0x75-c)/0x20), 16)
			i += width
			ok = width > 0 && n < 0x80
		case c == 'c':
			ok = i < len(s) && (s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z')
			if ok {
				n = int(s[i] & 0x1f)
				i++
			}
		default:
			out = append(out, '\\', c)
			continue
		}
		if !ok || n == 0 {
			return "", false
		}
		out = append(out, byte(n))
	}
	return string(out), true
}

// ansiPlain returns what a backslash and c stand for where that is one fixed byte.
func ansiPlain(c byte) (byte, bool) {
	switch c {
	case 'a':
		return '\a', true
	case 'b':
		return '\b', true
	case 'e', 'E':
		return 0x1b, true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'v':
		return '\v', true
	case '\\', '\'', '"', '?':
		return c, true
	}
	return 0, false
}

// digits reads at most n digits of the base and returns their value and number.
func digits(s string, n, base int) (value, width int) {
	for width < n && width < len(s) {
		d := 0
		switch c := s[width]; {
		case c >= '0' && c <= '9':
			d = int(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = int(c|0x20-'a') + 10
		default:
			d = base
		}
		if d >= base {
			break
		}
		value = value*base + d
		width++
	}
	return value, width
}
