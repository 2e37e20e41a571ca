package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// body returns a here-document as written. The parser leaves out what it
// joined before the first part.
func (w *walker) body(x *syntax.Word) string {
	at := w.local(x)
	for at.Start >= 2 && w.text[at.Start-2:at.Start] == "\\\n" {
		at.Start -= 2
	}
	return at.Of(w.text)
}

// endsElsewhere reports whether bash sees the end of a here-document, whose
// body is expanded, at another place than the parser does. Bash joins lines
// at a backslash before it looks for the delimiter, which can make one, or
// take one away; the parser looks at each line alone.
func endsElsewhere(body, delimiter string, tabs bool) bool {
	if !strings.Contains(body, "\\\n") {
		return false
	}
	joined, started := "", false
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		if n := len(line) - len(strings.TrimRight(line, `\`)); n%2 == 1 {
			// No more than the delimiter and its tabs has to be known.
			joined, started = shortened(joined+line[:len(line)-1], len(delimiter)+1, tabs), true
			continue
		}
		if started && shortened(joined+line, len(delimiter)+1, tabs) == delimiter {
			return true
		}
		joined, started = "", false
	}
	return started
}

// shortened returns as much of a line as it takes to tell whether it is a
// delimiter of less than n bytes.
func shortened(line string, n int, tabs bool) string {
	if tabs {
		line = strings.TrimLeft(line, "\t")
	}
	return line[:min(n, len(line))]
}
