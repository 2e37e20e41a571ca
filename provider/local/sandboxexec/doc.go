// Package sandboxexec runs commands under profiles of sandbox-exec, which is how
// macOS isolates a process: there are no mounts and no namespaces, everything is
// at its own path of the host, and the loopback interface is the host's.
//
// Each command, and each line of a shell, has a profile of its own, made from
// the rules and from what there is on the host at that moment: what is granted,
// or appears and is to be closed, counts from the next one on. The state of a
// shell is kept by this process between its lines.
//
// The package builds on Linux too, where its tests run it with programs that
// stand for sandbox-exec and log(1). Nothing of it has been run on macOS.
package sandboxexec
