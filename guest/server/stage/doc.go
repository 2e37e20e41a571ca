//go:build linux

// Package stage is the small process between the guest and one command.
//
// A stage is a subreaper: whatever the command forks, however it detaches
// itself, stays below its stage and is told apart from the processes of
// other commands. The stage sets up the command between fork and exec (its
// session, terminal, directory, limits, Landlock domain), reports how the
// program ended and then when the last descendant is gone, and is ready for
// the next command. It runs none of the command's code and keeps nothing of
// it, so it is used many times; forking from it is cheap because it is
// small, and it is started ahead of need.
//
// The guest speaks to it over a Unix stream socket, descriptor
// [ControlFD]. A stage is single-minded: it reads one request, runs it to
// its end, reads the next; ending a command's processes early is the
// guest's business, from outside. A stage has no more than two threads,
// which matters under a process limit.
package stage
