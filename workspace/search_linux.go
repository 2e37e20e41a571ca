package workspace

import "golang.org/x/sys/unix"

// searchOnly opens a folder to go through it, which needs no right to read it.
const searchOnly = unix.O_PATH
