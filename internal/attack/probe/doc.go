// Package probe holds the attempts of the self-test that run inside a sandbox:
// each one tries a known escape and reports what the kernel answered.
//
// It is built into the guest binary, which is mounted into every sandbox, so
// that the self-test needs nothing of the image: no shell, no Python, no
// libraries. It imports the standard library and golang.org/x/sys only, and
// of the former no package that would weigh on the guest.
//
// A probe does as little harm as a proof allows. It opens a dangerous file and
// does not write to it, asks for a namespace in a thread that ends right after,
// and removes what it wrote. The few that must be destructive (the fork bomb,
// filling memory and disks, signals to every process) are meant for a
// temporary sandbox only and are watched from outside.
//
// Output is one line, the last on standard output:
//
//	probe: OUTCOME TEXT
//
// with OUTCOME one of "contained", "escaped" and "skipped".
package probe
