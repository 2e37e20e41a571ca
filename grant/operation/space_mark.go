package operation

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// A mark is a file next to a folder. It identifies the folder as temporary
// space, and says until when its call can last.
type mark struct{ expires time.Time }

const (
	markHead = "temporary space until "
	// maxMark bounds a mark in bytes.
	maxMark = 64
	// markSuffix ends the name of a mark, a dot begins it.
	markSuffix = ".until"
)

// markOf is the path of the mark of a folder.
func markOf(folder string) string {
	dir, name := path.Split(folder)
	return dir + "." + name + markSuffix
}

// folderOf is the name of the folder that the mark of the given name belongs
// to; ok is false for what is no such name.
func folderOf(name string) (folder string, ok bool) {
	name, dotted := strings.CutPrefix(name, ".")
	name, ends := strings.CutSuffix(name, markSuffix)
	return name, dotted && ends && isFolder(name)
}

func (m mark) encode() string { return markHead + strconv.FormatInt(m.expires.Unix(), 10) + "\n" }

// parseMark reads a mark. Code inside may have written it.
func parseMark(text string) (m mark, ok bool) {
	text, head := strings.CutPrefix(text, markHead)
	text, end := strings.CutSuffix(text, "\n")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if !head || !end || err != nil || seconds <= 0 || seconds > 1<<40 {
		return mark{}, false
	}
	return mark{time.Unix(seconds, 0)}, true
}
