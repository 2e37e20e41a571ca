//go:build linux

// This file describes the seccomp notifier, which observes what commands try to
// change: it takes the system calls that their filter hands to the guest, lets
// each go on at once, and then finds out whether it was about something that
// the sandbox does not let them change.
//
// It decides nothing. What a call is allowed to do is the business of mounts,
// Landlock and the filter; here is only evidence for people. A program that
// changes a path while we read it, or a link while we follow it, gets a wrong
// report of its own doing and nothing else. One that is not dumpable, such as
// a program file that may be executed and not read, cannot be looked into, and
// nothing is seen of it.

package server
