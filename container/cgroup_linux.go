package container

import "golang.org/x/sys/unix"

// unifiedCgroups reports whether control groups of this machine are those of version
// 2 alone.
func unifiedCgroups() bool {
	var st unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}
