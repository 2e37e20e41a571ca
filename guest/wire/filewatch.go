package wire

// A FileChange is one record of what a watch reports. Records follow one another
// in the content of the answer; their borders are not those of frames.
type FileChange struct {
	Kind ChangeKind
	Info FileInfo // of the thing itself, as it was just after the change; zero where it has gone
	Name string   // relative to the watched folder; "." is that folder
	To   string   // ChangeRename: the new name, empty where it lies outside of what is watched
}

// A ChangeKind says what has happened to an entry, or to the watch.
type ChangeKind uint8

// The kinds of changes.
const (
	ChangeCreate ChangeKind = 1
	ChangeWrite  ChangeKind = 2
	ChangeRemove ChangeKind = 3
	ChangeRename ChangeKind = 4
	ChangeMode   ChangeKind = 5 // mode, owner or times

	// ChangeReady is the first record: Info.Size is the number of entries, with
	// the watched folder.
	ChangeReady ChangeKind = 16
	// ChangeOverflow says that the kernel has dropped changes because they came
	// faster than they were read.
	ChangeOverflow ChangeKind = 17
	// ChangeUnwatched says that what is in the folder Name is not watched;
	// Info.Size is the errno.
	ChangeUnwatched ChangeKind = 18
	// ChangeGone is the last record: the watched folder has been removed, renamed
	// or unmounted.
	ChangeGone ChangeKind = 19
)

// MaxWatches is how many watches a guest serves at a time.
const MaxWatches = 16

// MaxWatchedFolders is how many folders one watch takes in.
const MaxWatchedFolders = 16 << 10

// MaxFileChange is the longest that a record can be, in bytes.
const MaxFileChange = 1 + fileInfoLen + 2*(4+maxFilePath)

// AppendFileChange appends m to the content of a watch.
func AppendFileChange(b []byte, m FileChange) []byte {
	e := encoder{b: b}
	e.u8(uint8(m.Kind))
	e.fileInfo(m.Info)
	e.str(m.Name)
	e.str(m.To)
	return e.b
}

// DecodeFileChange reads the first record of p and returns what follows it. With
// ok false, p holds no whole record yet. A name that could lead out of the
// watched folder is a violation.
func DecodeFileChange(p []byte) (m FileChange, rest []byte, ok bool, err error) {
	d := decoder{b: p}
	m.Kind, m.Info = ChangeKind(d.u8()), d.fileInfo()
	if d.bad && len(p) >= 1+fileInfoLen {
		return m, nil, false, Violation("malformed change")
	}
	m.Name, m.To = d.str(), d.str()
	switch {
	case d.bad && len(p) >= MaxFileChange:
		return m, nil, false, Violation("malformed change")
	case d.bad:
		return FileChange{}, p, false, nil
	case !isBelow(m.Name), m.To != "" && (m.Kind != ChangeRename || !isBelow(m.To)), len(m.Name) > maxFilePath, len(m.To) > maxFilePath:
		return m, nil, false, Violation("malformed change")
	}
	return m, d.b, true, nil
}

// isBelow reports whether s is a clean relative path that stays below where it
// begins, or ".".
func isBelow(s string) bool {
	if s == "." {
		return true
	}
	for {
		name, rest, more := cutName(s)
		if !isFileName(name) {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
}

func cutName(s string) (name, rest string, more bool) {
	for i := range len(s) {
		if s[i] == '/' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
