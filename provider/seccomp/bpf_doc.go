// The bpf files compile the system-call filters of sandboxes that no container
// engine filters. They hold two tables of rules and an assembler that turns the
// rules into a program for the kernel, on amd64 and arm64.
//
// The filter of [Filter] applies to every process in the sandbox, the guest
// included. It refuses what the container profile of this package refuses, and
// every call that is newer than the table. The filter of [Command] applies to
// commands only, on top of the first one: it covers Unix sockets, file leases,
// the core limit, and the calls that an observer receives.
//
// A rule that tests a number tests only the lower half of the argument. All
// those numbers are 32 bits wide and the kernel ignores the upper half, so a
// program cannot evade a rule by setting bits there.

package seccomp
