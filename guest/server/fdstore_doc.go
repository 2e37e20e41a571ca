// Hold: this part of the package is the process that lives beside a persistent shell and
// holds descriptors for it.
//
// A shell gets fresh pipes unless nobody can write to the last ones any
// more, so that what a process of an earlier line writes cannot come out
// with a later one. A shell cannot receive descriptors, but it can open
// /proc/PID/fd/N of a process of its own Landlock domain. That process is the
// holder: it takes descriptors from the guest over a Unix socket, puts them
// into numbered slots, and runs to the end of its socket. No descriptor of the
// guest is open in the programs of a line but those of the line itself. While
// its lines start no programs, bash keeps what it has opened, for the next one.
//
// What a shell answers goes to its own standard error, and its state to its
// own standard output, which a line has redirected while it runs. So it need
// not open anything for that: where opening for writing is observed, each time
// costs as much as all else of an answer that the next line waits for. The
// holder has the pipe of answers too, so that it ends with the last process of
// the shell, and not when a line becomes another program.
//
// The program of the stage is "hold run": it starts the holder, as a child
// of the stage like itself, and becomes the shell. So the stage, which user
// code cannot touch, tells how the shell ended, and the shell knows nothing
// of the holder.
//
// The holder belongs to the code in the shell, which may stop it, end it or
// speak in its name. The guest takes nothing from it but its process
// number, which only the shell's own script uses, and acknowledgements; a
// holder that fails or lies is the end of its shell and of nothing else.

package server
