// This file holds the messages about the files of a sandbox.

package stream

import (
	"io/fs"
	"time"
)

// TrailerProblem is the trailer of a body that ended too early, with the problem
// document that says why.
const TrailerProblem = "Sandbox-Problem"

// Abilities lists the optional operations of a sandbox's files.
type Abilities struct {
	Links   bool `json:"links"`   // links can be looked at and made
	NoLinks bool `json:"noLinks"` // there is a view without links
	Clear   bool `json:"clear"`
}

// A File describes a file or folder.
type File struct {
	Name     Text        `json:"name"`
	Size     int64       `json:"size"`
	Mode     fs.FileMode `json:"mode"` // the bits of Go's io/fs
	Modified time.Time   `json:"modified"`
}

// FileOf returns i in the form that is sent.
func FileOf(i fs.FileInfo) File {
	return File{Name: Text(i.Name()), Size: i.Size(), Mode: i.Mode(), Modified: i.ModTime()}
}

// Files are the entries of a folder.
type Files struct {
	Items []File `json:"items"`
}

// A Target is the target of a link.
type Target struct {
	Target Text `json:"target"`
}
