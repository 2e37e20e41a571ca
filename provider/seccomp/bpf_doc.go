// Bpf: this part of the package compiles our filters of system calls for walls that have no
// engine to do it: two tables of rules, and an assembler that makes a program
// for the kernel of them, for amd64 and arm64 alike.
//
// The wall filter holds for everything inside, the guest too. It refuses what
// the container profile of package seccomp refuses, and every call that is
// newer than the table. The command filter holds for commands alone, on top
// of it: Unix sockets, leases of files, the limit of cores, and the calls that an
// observer is told of.
//
// A rule that looks at a number looks at the lower half of the argument only:
// all those numbers are 32 bits wide, the kernel ignores the upper half, and
// so a program cannot evade a rule by setting bits there.

package seccomp
