package secret

import (
	"bytes"
	"slices"
	"sort"
)

// A matcher finds the encodings of values in a text in one pass. It looks at
// the last two bytes of a window as long as the shortest pattern: if no
// pattern has these two, it advances by almost the window's length (the
// algorithm of Wu and Manber). It is immutable.
type matcher struct {
	patterns []pattern // sorted by text
	window   int       // length of the shortest pattern
	longest  int
	shift    []uint8          // by the last two bytes of a window: the distance to the next one
	starts   map[uint64][]int // by the first eight bytes: patterns, longest first
	begins   [256]bool        // first bytes of patterns
	values   []pattern        // the values themselves, for encodings without a pattern
	value    int              // length of the longest of them
	places   map[[2]byte][]place
	folded   [][]byte // the values in lower case, for names of fields
}

type pattern struct {
	text    []byte
	standIn []byte
}

// newMatcher returns a matcher of all values that the secrets ever had, or nil
// if there is none.
func newMatcher(secrets []*held) *matcher {
	m := &matcher{starts: map[uint64][]int{}}
	for _, h := range secrets {
		for _, value := range h.seen {
			m.folded = append(m.folded, bytes.ToLower(value))
			m.values, m.value = append(m.values, pattern{text: bytes.Clone(value), standIn: []byte(h.standIn)}), max(m.value, len(value))
			for _, text := range forms(value) {
				m.patterns = append(m.patterns, pattern{text: text, standIn: []byte(h.standIn)})
			}
		}
	}
	if len(m.patterns) == 0 {
		return nil
	}
	// Stable: of two secrets with one value the first is shown.
	slices.SortStableFunc(m.patterns, func(a, b pattern) int { return bytes.Compare(a.text, b.text) })
	m.patterns = slices.CompactFunc(m.patterns, func(a, b pattern) bool { return bytes.Equal(a.text, b.text) })
	m.window = len(m.patterns[0].text)
	for _, p := range m.patterns {
		m.window, m.longest = min(m.window, len(p.text)), max(m.longest, len(p.text))
	}
	m.window = min(m.window, 255)
	m.places = placesOf(m.values)
	m.index()
	return m
}

// index fills the tables.
func (m *matcher) index() {
	m.shift = make([]uint8, 1<<16)
	for i := range m.shift {
		m.shift[i] = uint8(m.window - 1)
	}
	for i, p := range m.patterns {
		for q := 2; q <= m.window; q++ {
			at := pair(p.text[q-2:])
			m.shift[at] = min(m.shift[at], uint8(m.window-q))
		}
		key := head(p.text)
		m.starts[key] = append(m.starts[key], i)
		m.begins[p.text[0]] = true
	}
	for _, list := range m.starts {
		slices.SortStableFunc(list, func(a, b int) int { return len(m.patterns[b].text) - len(m.patterns[a].text) })
	}
}

func pair(b []byte) int { return int(b[0]) | int(b[1])<<8 }

// head is the first eight bytes, which every pattern has.
func head(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// find returns the first match in text that starts before end, the longest one
// at that position; at is -1 if there is none.
func (m *matcher) find(text []byte, end int) (at int, p *pattern) {
	w := m.window
	for i := 0; i < end && i+w <= len(text); {
		if s := m.shift[pair(text[i+w-2:])]; s > 0 {
			i += int(s)
			continue
		}
		if m.begins[text[i]] {
			for _, k := range m.starts[head(text[i:])] {
				if bytes.HasPrefix(text[i:], m.patterns[k].text) {
					return i, &m.patterns[k]
				}
			}
		}
		i++
	}
	return -1, nil
}

// open returns the first position from which text could be the beginning of a
// pattern that continues after its end; the length of text if there is none.
func (m *matcher) open(text []byte) int {
	first := len(text)
	for i := max(0, len(text)-m.longest+1); i < len(text); i++ {
		if m.begins[text[i]] && m.begun(text[i:]) {
			first = i
			break
		}
	}
	from := max(0, len(text)-m.value*maxEscape)
	if at, _, _ := m.spelled(text[from:], first-from, true); at >= 0 {
		return from + at
	}
	return first
}

// begun reports whether text is a proper prefix of some pattern.
func (m *matcher) begun(text []byte) bool {
	// Patterns with that prefix are adjacent, and text itself, if it is one,
	// is the first of them.
	i := sort.Search(len(m.patterns), func(i int) bool { return bytes.Compare(m.patterns[i].text, text) >= 0 })
	if i < len(m.patterns) && bytes.Equal(m.patterns[i].text, text) {
		i++
	}
	return i < len(m.patterns) && bytes.HasPrefix(m.patterns[i].text, text)
}

// replace appends text to dst with values replaced by stand-ins. Unless text
// is complete (whole), it stops where a value may continue after the end, and
// returns how much of text it has consumed.
func (m *matcher) replace(dst, text []byte, whole bool) (out []byte, taken int) {
	end := len(text)
	if !whole {
		end = m.open(text)
	}
	for {
		at, long, standIn := m.next(text[taken:], end-taken)
		if at < 0 {
			return append(dst, text[taken:end]...), end
		}
		dst = append(append(dst, text[taken:taken+at]...), standIn...)
		taken += at + long
		if taken > end { // the match covers what looked like a beginning
			end = taken + m.open(text[taken:])
		}
	}
}

// wipe overwrites the matcher's copies of values.
func (m *matcher) wipe() {
	if m == nil {
		return
	}
	for _, p := range m.patterns {
		clear(p.text)
	}
	for _, v := range m.values {
		clear(v.text)
	}
	for _, value := range m.folded {
		clear(value)
	}
}
