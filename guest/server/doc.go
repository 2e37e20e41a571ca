//go:build linux

// Package server is the inside half of the guest: the first process of a
// sandbox, which runs commands for the client outside (see package wire for the
// protocol and package client for the other half).
//
// The processes inside are: the guest itself, process 1, which never runs
// foreign code and cannot be read, traced or ended by it; one shim per running
// command, and one or a few more kept ready (shim_doc.go); a descriptor store
// beside each persistent shell (fdstore_doc.go); a relay for each connection
// that comes through an engine exec instead of the socket. The guest and the
// commands are the same user, so everything that this user can do to the guest
// has to be harmless: see package sigs for signals, socketdir.go and peer.go
// for the socket, and threads.go for the process limit.
//
// # The life of a command
//
// A request gets its streams and a shim. When the program has ended, its result
// is known; descendants that are left are killed, unless the command was
// started detached; what is in the pipes is sent; then Exit is. A background
// process that holds standard output therefore neither hangs a call nor
// outlives it. A detached command's descendants live on, and what they write
// later is dropped.
//
// # The life of a shell
//
// A persistent shell is one command of a shim for as long as it lives, and its
// lines are streams of their own. protocol_doc.go says how a line gets into the
// shell and its status out of it. A line ends with the answer of the shell, or
// with the shell; after each line the shell reports its state, from which a new
// one starts when a line finds it gone. Nothing of a shell's own processes is
// trusted: what they can spoil is their shell.
//
// A kept shell outlives the guest. Its state lies in files in memory
// (snapshot_doc.go of package wire), of which the client has descriptors too
// (handover_doc.go there), and a shell of another guest can be opened with it.
// The state after a line is there a moment after the line's end was reported,
// because writing it takes a shell longer than most lines; a reader can see
// which line it is of.
//
// # Many at once
//
// Commands start in the order in which they were asked for, a few per processor
// at a time (gate.go). A command makes way for the next one when it ends, when
// its program waits for something, and after some milliseconds in any case;
// clients take turns. So many short commands are served one after the other,
// none of them much later than the others, and with few shims and processes at
// a time; and long commands do not delay others. One that is killed, or whose
// client goes, before its turn never starts. While some wait, answers are held
// back for a moment and go out together (held.go).
//
// # Forwarded connections
//
// Dial and Listen make sockets in our own namespaces and carry their bytes
// (forward.go). They are polled like everything else, and bounded in number
// and in what they hold, because code inside can open and stall them.
//
// # The end
//
// The end of the connection kills the commands that were started over it,
// except detached ones, and everything below them, and drops its
// forwarded connections.
package server
