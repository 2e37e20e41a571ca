package tools

import "fmt"

// A Mode says what is shown of lines that match.
type showMode string

// The modes.
const (
	modeLines showMode = "lines" // the lines: path:number:text, and path-number-text around them
	modeFiles showMode = "files" // the files that have one
	modeCount showMode = "count" // how many each file has: path:number
)

// MatchOptions bound [Matches].
type matchOptions struct {
	Mode    showMode // empty is ModeLines
	Context bool     // lines around those that match are added: gaps are marked by --
	Limit   int      // the most lines that match, or files; 0 is all
	Width   int      // bytes that are shown of one line; 0 is DefaultWidth
	Bytes   int      // of the text; 0 is DefaultBytes
}

// Matches collects lines that match, as a search through files finds them. It
// is not safe for concurrent use.
type showMatches struct {
	o    matchOptions
	out  text
	page showPage

	path string // of the file that is searched
	hits int    // in it
	line int    // that was added last
	more bool   // something was found that is not shown
}

// NewMatches returns an empty collection.
func newMatches(o matchOptions) *showMatches {
	o.Width = orElse(o.Width, defaultWidth)
	return &showMatches{o: o, out: text{limit: orElse(o.Bytes, defaultBytes)}}
}

// Add takes a line of a file: one that matches, or one around it. Lines come in
// their order, those of a file together. It returns false when nothing further
// will be shown, so that the search may end.
func (m *showMatches) Add(path string, line int, text []byte, hit bool) bool {
	if m.more {
		return false
	}
	fresh := path != m.path
	if fresh {
		m.flush()
		m.path, m.hits, m.line = path, 0, 0
	}
	if !hit && m.o.Mode != modeLines && m.o.Mode != "" {
		return !m.more
	}
	switch m.o.Mode {
	case modeFiles:
		if m.hits == 0 {
			m.item(nameShow(path))
		}
	case modeCount:
	default:
		m.show(path, line, text, hit, fresh)
	}
	if hit {
		m.hits++
	}
	return !m.more
}

// show shows a line, with a mark where lines are left out before it.
func (m *showMatches) show(path string, line int, text []byte, hit, fresh bool) {
	sign := "-"
	if hit {
		sign = ":"
		if m.full() {
			return
		}
	}
	row := fmt.Sprintf("%s%s%d%s%s", nameShow(path), sign, line, sign, shorten(text, m.o.Width))
	if m.o.Context && m.out.Len() > 0 && (fresh || line > m.line+1) {
		row = "--\n" + row
	}
	if !m.out.line(row) {
		m.more = true
		return
	}
	m.line = line
	if hit {
		m.page.Shown++
	}
}

// full reports whether no further item is shown, and notes that there is one.
func (m *showMatches) full() bool {
	m.more = m.more || m.o.Limit > 0 && m.page.Shown == m.o.Limit
	return m.more
}

// item shows a line about a file.
func (m *showMatches) item(row string) {
	if m.full() {
		return
	}
	if !m.out.line(row) {
		m.more = true
		return
	}
	m.page.Shown++
}

// flush shows the count of the file that was searched.
func (m *showMatches) flush() {
	if m.o.Mode == modeCount && m.hits > 0 {
		m.item(fmt.Sprintf("%s:%d", nameShow(m.path), m.hits))
	}
	m.hits = 0
}

// Page returns what was collected. Nothing may be added after it. Total is what
// is shown: what there is beyond that was not looked for.
func (m *showMatches) Page() showPage {
	m.flush()
	p := m.page
	p.Text, p.More, p.Total = m.out.String(), m.more, m.page.Shown
	if p.More {
		p.Total++
	}
	what := "files"
	if m.o.Mode == modeLines || m.o.Mode == "" {
		what = "lines that match"
	}
	p.Hint = rest(p, what, true)
	return p
}
