package nolink

import "golang.org/x/sys/unix"

// PathOnly opens a folder to go through it, which needs no right to read it.
const PathOnly = unix.O_PATH
