//go:build linux

package main

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes the class of this machine.
func (r *rig) Machine() reportMachine {
	runtimeName := r.Posture.Default
	if r.Spec.Runtime != "" {
		runtimeName = r.Spec.Runtime
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // without it the model is not known
	return reportMachine{
		Cores: runtime.NumCPU(), Processor: modelOf(string(cpuinfo)), Memory: r.Posture.Memory,
		Kernel: kernel(), Go: runtime.Version(),
		Engine: r.Posture.Version, API: r.Posture.APIVersion, Runtime: runtimeName,
		Storage: r.Posture.Storage, Cgroup: r.Posture.CgroupVersion,
		Workspace: fileSystem(r.workspace(r.Spec.Name)), Load: loadAverage(),
	}
}

// modelOf finds the processor's name in the text of /proc/cpuinfo.
func modelOf(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// load returns the load average of the last minute, or 0 when it is not known.
func loadAverage() float64 {
	var i unix.Sysinfo_t
	if err := unix.Sysinfo(&i); err != nil {
		return 0
	}
	return float64(i.Loads[0]) / (1 << 16) // fixed point, see sysinfo(2)
}

// kernel is the version of the kernel without the name of its build.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of unknown version"
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return version
}

// fileSystem names the kind of file system on which path lies.
func fileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "an unknown file system"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}
	if name, ok := names[int64(st.Type)]; ok {
		return name
	}
	return "another file system"
}
