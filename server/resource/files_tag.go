package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strconv"
	"strings"
)

// A tag is an entity tag of RFC 9110. A strong one is the SHA-256 of the
// content, so a client that has the content can compute it. A weak one is made
// of size and time, which another content can have as well.
type tag struct {
	weak  bool
	value string // without quotes
}

// strongTag returns the tag of the content with this digest.
func strongTag(sum [sha256.Size]byte) tag { return tag{value: "sha256-" + hex.EncodeToString(sum[:])} }

// weakTag returns the tag of a file whose content was not read.
func weakTag(info fs.FileInfo) tag {
	return tag{weak: true, value: strconv.FormatInt(info.Size(), 16) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 16)}
}

// String returns the tag in the form of a header.
func (t tag) String() string {
	if t.weak {
		return `W/"` + t.value + `"`
	}
	return `"` + t.value + `"`
}

// strongly reports whether both tags are strong and the same.
func (t tag) strongly(o tag) bool { return !t.weak && !o.weak && t.value == o.value }

// weakly reports whether the tags are the same, weak or not.
func (t tag) weakly(o tag) bool { return t.value == o.value }

// A condition is the value of If-Match or If-None-Match.
type condition struct {
	given bool
	any   bool // *
	tags  []tag
}

// maxTags bounds what one header may list.
const maxTags = 64

// readCondition parses the values of one header. ok is false for a value that is
// neither * nor a list of tags.
func readCondition(values []string) (c condition, ok bool) {
	if len(values) == 0 {
		return c, true
	}
	text := strings.TrimSpace(strings.Join(values, ","))
	c.given = true
	if text == "*" {
		c.any = true
		return c, true
	}
	for {
		text = strings.TrimLeft(text, " \t,")
		if text == "" {
			return c, len(c.tags) > 0
		}
		t, rest, good := readTag(text)
		if !good || len(c.tags) == maxTags {
			return condition{given: true}, false
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ',' {
			return condition{given: true}, false
		}
		c.tags, text = append(c.tags, t), rest
	}
}

// readTag parses the tag at the beginning of text.
func readTag(text string) (t tag, rest string, ok bool) {
	if t.weak = strings.HasPrefix(text, "W/"); t.weak {
		text = text[2:]
	}
	if !strings.HasPrefix(text, `"`) {
		return tag{}, "", false
	}
	end := strings.IndexByte(text[1:], '"')
	if end < 0 {
		return tag{}, "", false
	}
	t.value = text[1 : 1+end]
	for _, c := range []byte(t.value) {
		if c <= ' ' || c == 0x7f {
			return tag{}, "", false
		}
	}
	return t, text[end+2:], true
}

// strong reports whether one of the tags could be that of a content.
func (c condition) strong() bool {
	for _, t := range c.tags {
		if !t.weak {
			return true
		}
	}
	return false
}

func (c condition) matches(have tag, same func(a, b tag) bool) bool {
	for _, t := range c.tags {
		if same(t, have) {
			return true
		}
	}
	return false
}
