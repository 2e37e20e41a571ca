package tools

import (
	"fmt"
	"io/fs"
	"time"
)

// An Entry is one of a folder.
type showEntry struct {
	Name     string
	Mode     fs.FileMode
	Size     int64
	Modified time.Time
	Target   string // of a link, if it is known
}

// Entries shows what is in a folder, in the order given: mode, size, time in
// UTC and name, folders with a slash behind them. The first offset entries are
// left out, and at most limit are shown; 0 is all. The text has at most bytes
// bytes; 0 is [DefaultBytes].
func entriesShow(list []showEntry, offset, limit, bytes int) showPage {
	offset = max(0, min(offset, len(list)))
	p := showPage{Total: len(list)}
	out := text{limit: orElse(bytes, defaultBytes)}
	for _, e := range list[offset:] {
		if limit > 0 && p.Shown == limit || !out.line(e.row()) {
			break
		}
		p.Shown++
	}
	p.Text = out.String()
	p.More = offset+p.Shown < p.Total
	switch {
	case p.Total == 0:
		p.Hint = "the folder is empty"
	case p.Shown == 0:
		p.Hint = fmt.Sprintf("the folder has %d entries, and none after the first %d", p.Total, offset)
	case p.More:
		p.Hint = fmt.Sprintf("%d to %d of %d entries; go on with offset %d", offset+1, offset+p.Shown, p.Total, offset+p.Shown)
	}
	return p
}

func (e showEntry) row() string {
	name, size := nameShow(e.Name), fmt.Sprint(e.Size)
	switch {
	case e.Mode.IsDir():
		name, size = name+"/", "-"
	case e.Mode&fs.ModeSymlink != 0 && e.Target != "":
		name += " -> " + nameShow(e.Target)
	}
	when := "-"
	if !e.Modified.IsZero() {
		when = e.Modified.UTC().Format("2006-01-02 15:04")
	}
	return fmt.Sprintf("%s %10s  %16s  %s", e.Mode, size, when, name)
}

// Paths shows paths, in the order given, at most limit; 0 is all. With more
// there are further ones, which were not looked for.
func pathsShow(list []string, limit, bytes int, more bool) showPage {
	p := showPage{Total: len(list), More: more}
	out := text{limit: orElse(bytes, defaultBytes)}
	for _, name := range list {
		if limit > 0 && p.Shown == limit || !out.line(nameShow(name)) {
			p.More = true
			break
		}
		p.Shown++
	}
	p.Text = out.String()
	p.Hint = rest(p, "paths", more)
	return p
}

// rest says how much of a search is shown.
func rest(p showPage, what string, open bool) string {
	least := ""
	if open {
		least = "at least "
	}
	switch {
	case p.Total == 0:
		return "nothing matches"
	case p.More:
		return fmt.Sprintf("%d of %s%d %s; narrow the search to see the others", p.Shown, least, p.Total, what)
	}
	return ""
}
