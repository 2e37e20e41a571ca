//go:build linux

// This file describes the shim: the small process between the guest and one
// command.
//
// A shim is a subreaper: whatever the command forks, however it detaches
// itself, stays below its shim and can be distinguished from the processes of
// other commands. The shim sets up the command between fork and exec (its
// session, terminal, directory, limits, Landlock domain), reports how the
// program ended and then when the last descendant is gone, and is ready for the
// next command. It runs none of the command's code.
//
// # What a shim is made of
//
// A shim is a fork of the guest that never executes another program. It has one
// thread, no Go runtime and no heap: everything that runs in it is raw system
// calls in functions that do not grow the stack (nosplit, which the linker
// holds to a few hundred bytes), on memory that was reserved before the fork.
// The first thing it does is to unmap the guest's memory, so that it holds
// nothing of the guest but code, and its own forks are as cheap as those of a
// tiny C program. On amd64 its child borrows the shim's memory until it
// executes, as after vfork(2); elsewhere it copies it. Then it closes every
// descriptor that is not its own. That makes a shim cost about 0.1 ms, one
// process and some 300 KiB of which most is code that is shared, and a command
// little more than fork and exec. A C library would not survive the loss of its
// memory: the guest has to be built without cgo.
//
// What the client asks for is parsed and checked in the guest alone
// ([Maker.Request]); a shim receives a plan that is ready for the kernel. The
// addresses in it are the guest's own computation and lie in the memory that it
// reserved for that; the client's bytes are never more than the contents of
// strings.
//
// A shim is not dumpable: no process of the same user can trace it or open what
// is below /proc/PID. All signals stay blocked in it.
//
// # The conversation
//
// Requests come over a Unix stream socket, reports go into a pipe: a pipe wakes
// the guest for nothing but a report. A shim reads one request, runs it to its
// end, and reads the next; ending a command's processes early is the guest's
// business, from outside. When the guest closes its ends, the shim ends.

package server
