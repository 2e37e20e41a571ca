//go:build linux

package server

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
)

// quietLines is how many lines in a row must have made no process before a shell
// takes its outputs: what follows a program is often another one.
const quietLines = 2

// own decides where the next line of a shell has its outputs from. To open them
// costs a line that only prints a third of its time, and as much as everything
// else where opening for writing is observed. So a shell keeps them open itself
// while its lines make no processes: only the shell can write to the pipes
// then, as when they are found deserted. With the first new process of the
// sandbox, from any command, that is over: the pipes are left to it, and the
// shell lets go of them before its next line. After a line that only prints the
// guest does not look for one; it does after the line that follows.
//
// What a descriptor that a line has copied (exec 3>&1) writes in later lines is
// dropped, unless they have the same pipes: then it is part of their output.
type own struct {
	last  string // number of the last process of the sandbox when the last line ended; empty is not known
	calm  int    // lines in a row without a new one
	has   bool   // the shell has its outputs, which no other process has
	drop  bool   // the shell has outputs that others may have too
	never bool   // it could not take them
}

// next says how the line of that text has its outputs, and whether the shell has
// to close its own first. After a line that leaves fewer numbers for descriptors
// than theirs a shell could not go on with them.
func (o *own) next(text string) (from protocolOutputs, drop bool) {
	switch {
	case strings.Contains(text, "ulimit"):
		return protocolOpened, o.has || o.drop
	case o.has:
		return protocolOwn, false
	case o.calm >= quietLines && !o.never:
		return protocolTaken, o.drop
	}
	return protocolOpened, o.drop
}

// ended notes how a line has ended that had its outputs from there: the number
// of the last process, and whether the shell says that it has its own. It
// reports whether the pipes are the shell's alone.
func (o *own) ended(from protocolOutputs, last string, has bool) (alone bool) {
	quiet := last != "" && last == o.last
	if o.last = last; quiet {
		o.calm++
	} else {
		o.calm = 0
	}
	o.never = o.never || from == protocolTaken && !has
	o.has = has && quiet
	o.drop = has && !quiet
	return o.has
}

// lastProcess returns the number of the process that was made last in this
// sandbox, or nothing where it is not known: the last word of /proc/loadavg,
// which counts in the namespace of the reader, see proc_loadavg(5).
func (s *Server) lastProcess() string {
	if s.loadFD < 0 {
		return ""
	}
	var b [128]byte
	n, err := unix.Pread(s.loadFD, b[:], 0)
	if err != nil || n <= 0 || n == len(b) {
		return ""
	}
	line, whole := bytes.CutSuffix(b[:n], []byte{'\n'})
	if !whole {
		return ""
	}
	return string(line[bytes.LastIndexByte(line, ' ')+1:])
}
