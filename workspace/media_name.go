package workspace

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

const (
	maxName = 100 // bytes, all names that are given
	maxExt  = 10  // bytes, the dot among them
)

// A fileName is a name that needs no quoting anywhere: letters, digits, marks
// and "._-+@" only, beginning with a letter or digit.
type fileName struct {
	stem, ext string
}

// cleanName makes a name of what a stranger wrote. Of a path, with either
// separator, the last part counts. What is not allowed becomes one underscore
// for each run, and what a terminal would not show is dropped. An extension
// of up to nine ASCII letters and digits is kept. Where nothing is left the
// name is "file".
func cleanName(s string) fileName {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	if len(s) > 4*maxName {
		// The end holds the extension; the middle is nothing that matters.
		s = s[:3*maxName] + s[len(s)-maxName:]
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == utf8.RuneError, unicode.IsSpace(r):
			r = '_'
		case !termsafe.Safe(r):
			continue
		case !allowed(r):
			r = '_'
		}
		if r == '_' && strings.HasSuffix(b.String(), "_") {
			continue
		}
		b.WriteRune(r)
	}
	s = b.String()
	ext := path.Ext(s)
	if !plainExt(ext) {
		ext = ""
	}
	stem := strings.TrimLeftFunc(strings.TrimSuffix(s, ext), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	stem = strings.TrimRight(stem, "._-")
	if stem == "" {
		stem = "file"
	}
	return fileName{stem, ext}
}

func allowed(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune("._-+@", r)
}

func plainExt(ext string) bool {
	if len(ext) < 2 || len(ext) > maxExt {
		return false
	}
	for _, c := range []byte(ext[1:]) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return true
}

// with returns the name with suffix before the extension, at most maxName
// bytes long: the stem is cut for it, between two characters.
func (n fileName) with(suffix string) string {
	stem := n.stem
	for room := maxName - len(suffix) - len(n.ext); len(stem) > room; {
		_, size := utf8.DecodeLastRuneInString(stem)
		stem = stem[:len(stem)-size]
	}
	return stem + suffix + n.ext
}

// numbered is how many names of a file are tried before random ones: people
// like "photo-2.jpg", and the tries are to be few however many there are.
const numbered = 8

// try returns the name to take at the n-th try, from 0 on; word is new each
// time and of letters and digits.
func (n fileName) try(i int, word string) string {
	switch {
	case i == 0:
		return n.with("")
	case i < numbered:
		return n.with("-" + strconv.Itoa(i+1))
	}
	return n.with("-" + word)
}
