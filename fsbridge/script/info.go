package script

import (
	"io/fs"
	"time"
)

// The bits of st_mode on Linux, whatever the host is.
const (
	kindMask   = 0o170000
	kindSocket = 0o140000
	kindLink   = 0o120000
	kindFile   = 0o100000
	kindBlock  = 0o060000
	kindFolder = 0o040000
	kindChar   = 0o020000
	kindPipe   = 0o010000
	bitSetuid  = 0o4000
	bitSetgid  = 0o2000
	bitSticky  = 0o1000
)

// An info is a fs.FileInfo as a script reports it.
type info struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// fileMode translates st_mode of Linux.
func fileMode(st uint32) fs.FileMode {
	m := fs.FileMode(st & 0o777)
	switch st & kindMask {
	case kindFile:
	case kindFolder:
		m |= fs.ModeDir
	case kindLink:
		m |= fs.ModeSymlink
	case kindPipe:
		m |= fs.ModeNamedPipe
	case kindSocket:
		m |= fs.ModeSocket
	case kindBlock:
		m |= fs.ModeDevice
	case kindChar:
		m |= fs.ModeDevice | fs.ModeCharDevice
	default:
		m |= fs.ModeIrregular
	}
	if st&bitSetuid != 0 {
		m |= fs.ModeSetuid
	}
	if st&bitSetgid != 0 {
		m |= fs.ModeSetgid
	}
	if st&bitSticky != 0 {
		m |= fs.ModeSticky
	}
	return m
}
