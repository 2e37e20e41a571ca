package resource

import (
	"strconv"
	"strings"
)

// A span is a part of a content.
type span struct{ start, length int64 }

// contentRange is the value of Content-Range for a part of a content of that size.
func (s span) contentRange(size int64) string {
	return "bytes " + strconv.FormatInt(s.start, 10) + "-" + strconv.FormatInt(s.start+s.length-1, 10) + "/" + strconv.FormatInt(size, 10)
}

// The result of reading a Range header.
type ranged int

const (
	whole         ranged = iota // no range, or one that is passed over: the whole content is the answer
	part                        // one range that there is
	unsatisfiable               // ranges of which the content has none
)

// readRange returns the requested part of a content of that size. It ignores a
// list of several ranges, as RFC 9110 allows: the answer would be larger than
// the whole where they overlap. It also ignores an invalid header.
func readRange(values []string, size int64) (span, ranged) {
	if len(values) != 1 {
		return span{}, whole
	}
	unit, list, ok := strings.Cut(values[0], "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(list, ",") {
		return span{}, whole
	}
	first, last, ok := strings.Cut(strings.Trim(list, " \t"), "-")
	if !ok || !digits(first) || !digits(last) || first == "" && last == "" {
		return span{}, whole
	}
	if first == "" {
		n := number(last)
		switch {
		case n == 0 || size == 0:
			return span{}, unsatisfiable
		case n > size:
			n = size
		}
		return span{size - n, n}, part
	}
	start := number(first)
	if start >= size {
		if last != "" && less(last, first) {
			return span{}, whole
		}
		return span{}, unsatisfiable
	}
	end := size - 1
	if last != "" {
		if less(last, first) {
			return span{}, whole
		}
		end = min(end, number(last))
	}
	return span{start, end - start + 1}, part
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// number returns the value of digits; beyond 63 bits it is the largest number,
// which is larger than every content.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return n
}

// less compares numbers of any length.
func less(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}
