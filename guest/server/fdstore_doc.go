// This file describes the descriptor store: the process beside a persistent
// shell that holds descriptors for it.
//
// A shell gets fresh pipes unless no process can write to the last ones any
// more, so that the output of a process of an earlier line cannot appear in
// that of a later one. A shell cannot receive descriptors, but it can open
// /proc/PID/fd/N of a process of its own Landlock domain. That process is the
// descriptor store: it takes descriptors from the guest over a Unix socket,
// puts them into numbered slots, and runs to the end of its socket. No
// descriptor of the guest is open in the programs of a line but those of the
// line itself. While its lines start no programs, bash keeps what it has
// opened, for the next one.
//
// What a shell answers goes to its own standard error, and its state to its own
// standard output, which a line has redirected while it runs. So it need not
// open anything for that: where opening for writing is observed, each time
// costs as much as everything else of an answer that the next line waits for.
// The store has the pipe of answers too, so that it ends with the last process
// of the shell, and not when a line becomes another program.
//
// The program of the shim is "hold run": it starts the store, as a child of the
// shim like itself, and becomes the shell. So the shim, which user code cannot
// touch, reports how the shell ended, and the shell knows nothing of the store.
//
// The code in the shell controls the store, and may stop it, end it or forge
// its messages. The guest takes nothing from it but its process number, which
// only the shell's own script uses, and acknowledgements; a store that fails or
// lies ends its shell and nothing else.

package server
