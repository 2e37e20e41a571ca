package hostscan

import "strings"

// A setting is one line of a configuration file.
type setting struct {
	key   string // section.name in lower case, without subsection
	value string
	sub   string // the subsection, unquoted
	bare  bool   // without "=", which means true
}

// parseConfig returns the settings in text. It reads a valid file as git does;
// it skips a broken line and continues, so that it misses no setting that some
// version of git might accept.
func parseConfig(text string) []setting {
	var out []setting
	section, sub := "", ""
	for text != "" {
		text = strings.TrimLeft(text, " \t\r\n\ufeff")
		switch {
		case text == "":
		case text[0] == '#' || text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '[':
			section, sub, text = parseSection(text[1:])
		default:
			var s setting
			s, text = parseSetting(section, text)
			s.sub = sub
			out = append(out, s)
		}
	}
	return out
}

// parseSection parses what follows "[", through "]". A quoted subsection may
// contain a bracket.
func parseSection(text string) (section, sub, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return "", "", text[i:]
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name, sub := text[:i], ""
			if j := strings.IndexAny(name, " \t.\""); j >= 0 {
				sub = unquoteSub(name[j:])
				name = name[:j]
			}
			return strings.ToLower(name), sub, text[i+1:]
		}
	}
	return "", "", ""
}

// unquoteSub returns the subsection in what follows a section's name: in
// quotes, or in the old form after a dot, which is in lower case.
func unquoteSub(text string) string {
	if rest, old := strings.CutPrefix(text, "."); old {
		return strings.ToLower(rest)
	}
	_, rest, _ := strings.Cut(text, "\"")
	var b strings.Builder
	for i := 0; i < len(rest) && rest[i] != '"'; i++ {
		if rest[i] == '\\' && i+1 < len(rest) {
			i++
		}
		b.WriteByte(rest[i])
	}
	return b.String()
}

// parseSetting parses "name = value" or "name", with quotes, escapes, comments
// and lines that continue after a backslash.
func parseSetting(section, text string) (setting, string) {
	i := strings.IndexAny(text, " \t\r\n=#;[")
	if i < 0 {
		i = len(text)
	}
	s := setting{key: section + "." + strings.ToLower(text[:i])}
	if i == 0 {
		i = 1 // a character that begins no name
	}
	text = strings.TrimLeft(text[i:], " \t\r")
	if !strings.HasPrefix(text, "=") {
		s.bare = true
		return s, text
	}
	s.value, text = parseValue(strings.TrimLeft(text[1:], " \t\r"))
	return s, text
}

func parseValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, kept := false, 0 // blanks at the end count only in quotes
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n' || !quoted && (c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case '\n':
				continue
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
			if !quoted && (c == ' ' || c == '\t' || c == '\r') {
				continue
			}
		}
		kept = b.Len()
	}
	return b.String()[:kept], ""
}
