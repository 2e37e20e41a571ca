package cli

import "io/fs"

// typeWord names the type of a file.
func typeWord(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "folder"
	case fs.ModeSymlink:
		return "link"
	case fs.ModeNamedPipe:
		return "pipe"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// modeBits are the permissions with the set-id and sticky bits, as chmod(1)
// writes them.
func modeBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// modeText writes a mode as ls(1) does.
func modeText(m fs.FileMode) string {
	letters := map[string]byte{"file": '-', "folder": 'd', "link": 'l', "pipe": 'p', "socket": 's', "device": 'b'}
	text := []byte{letters[typeWord(m)]}
	if m&fs.ModeCharDevice != 0 {
		text[0] = 'c'
	}
	text = append(text, m.Perm().String()[1:]...)
	for _, special := range []struct {
		flag       fs.FileMode
		at         int
		with, bare byte // with and without the right to execute
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		switch {
		case m&special.flag == 0:
		case text[special.at] == 'x':
			text[special.at] = special.with
		default:
			text[special.at] = special.bare
		}
	}
	return string(text)
}
