// Package plan computes what a local wall shows and what it closes: from the
// rules and from what there is on the host, both plain data, to a list of
// mounts in order, the probes that prove them from inside, and the answer to
// what may be done where. It is pure: adapters turn a Plan into the arguments
// of a tool, and others look at the host.
package plan

import sandbox "github.com/bulkhead-dev/sandbox"

// A Kind is what there is at a path of the host, links not followed.
type Kind uint8

// The kinds.
const (
	Missing Kind = iota
	File
	Dir
	Link   // a symbolic link
	Socket // a Unix socket
	Other  // a device, a pipe
)

// A View makes a folder or file of the host visible. Later ones lie over
// earlier ones; a host path may be visible in several.
type View struct {
	Source   string // on the host: absolute, canonical
	Target   string // inside: absolute, clean
	Write    bool
	Optional bool   // left out where Source is missing; otherwise that is an error
	Why      string // the setting or the need that it comes from
}

// A Symlink is made in the new root: /bin where the host has usr/bin.
type Symlink struct {
	Target string // inside: absolute
	To     string // what it holds
}

// A Deny closes a path of the host, and everything below it, wherever a view
// shows it. It beats every view and every grant, at any depth.
type Deny struct {
	Path string // canonical on the host; it may be missing
	Read bool   // closed for reading and writing; otherwise for writing alone
	// Keep has a path that is missing be kept missing inside writable views,
	// by a stub on the host for as long as walls need it. Without it a deny
	// of a missing path has an effect only once the path is there.
	Keep bool
	Rule string // as a person finds it in the settings, or the name of a protection
}

// A World is what Make has to know of wall and host.
type World struct {
	Views    []View
	Symlinks []Symlink
	Tmpfs    []sandbox.Tmpfs
	ShmSize  int64 // bytes of /dev/shm
	Denies   []Deny
	// Kinds tells what there is at every Source and every Deny path, and at
	// each ancestor of a Deny path. A path that is not in it is an error.
	Kinds map[string]Kind
}
