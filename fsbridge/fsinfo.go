// This file describes files of a sandbox, the same way for every transport.
// Its input comes from inside and is untrusted; the transports check names
// first, with [IsName].

package fsbridge

import (
	"io/fs"
	"slices"
	"strings"
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

// maxName is the longest name in bytes that Linux has.
const maxName = 255

// An Info is a [fs.FileInfo] of a file in a sandbox.
type Info struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

var _ fs.FileInfo = Info{}

// New describes a file. The mode is st_mode of Linux, the size is in bytes.
func NewInfo(name string, mode uint32, size int64, modified time.Time) Info {
	return Info{name: name, size: size, mode: fileMode(mode), modified: modified}
}

// Name implements [fs.FileInfo].
func (i Info) Name() string { return i.name }

// Size implements [fs.FileInfo].
func (i Info) Size() int64 { return i.size }

// Mode implements [fs.FileInfo].
func (i Info) Mode() fs.FileMode { return i.mode }

// ModTime implements [fs.FileInfo].
func (i Info) ModTime() time.Time { return i.modified }

// IsDir implements [fs.FileInfo].
func (i Info) IsDir() bool { return i.mode.IsDir() }

// Sys implements [fs.FileInfo]; there is nothing.
func (i Info) Sys() any { return nil }

// IsName reports whether s can be the name of an entry in a folder.
func IsName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxName && !strings.ContainsAny(s, "/\x00")
}

// Sort sorts infos by name and returns each name once, because a rename
// while a folder is listed can show an entry twice.
func Sort(infos []Info) []Info {
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(infos, func(a, b Info) bool { return a.name == b.name })
}

// Entries makes the entries of a folder.
func Entries(infos []Info) []fs.DirEntry {
	entries := make([]fs.DirEntry, len(infos))
	for i, info := range infos {
		entries[i] = fs.FileInfoToDirEntry(info)
	}
	return entries
}

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
