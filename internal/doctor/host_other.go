//go:build unix && !linux

package doctor

import "golang.org/x/sys/unix"

func readOnly(*unix.Statfs_t) bool { return false }

func diskType(*unix.Statfs_t) string { return "" }
