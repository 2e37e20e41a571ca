package testenv

import (
	"os"
	"strconv"
	"strings"
)

// cgroup2Missing does not ask the code under test whether the machine is good enough.
func cgroup2Missing() string {
	b, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return "control groups of version 2 are not mounted alone: " + err.Error()
	}
	bus := "/run/dbus/system_bus_socket"
	if uid := os.Geteuid(); uid != 0 {
		id := strconv.Itoa(uid)
		bus = "/run/user/" + id + "/bus"
		group := "/sys/fs/cgroup/user.slice/user-" + id + ".slice/user@" + id + ".service"
		if _, err := os.Stat(bus); err != nil { // the group that we are in may be ours
			own, _ := os.ReadFile("/proc/self/cgroup")
			group = "/sys/fs/cgroup" + strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(own)), "0::"), "/supervisor")
			bus = group + "/cgroup.procs"
			if f, err := os.OpenFile(bus, os.O_WRONLY, 0); err == nil {
				f.Close()
			} else {
				return "no service manager answers, and the control group " + group + " is not ours: " + err.Error()
			}
		}
		b, _ = os.ReadFile(group + "/cgroup.controllers")
	}
	for _, c := range []string{"memory", "pids"} {
		if !strings.Contains(" "+strings.TrimSpace(string(b))+" ", " "+c+" ") {
			return "the controller " + c + " is not to be had"
		}
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return "systemd does not run"
	}
	if _, err := os.Stat(bus); err != nil {
		return "the service manager does not answer: " + err.Error()
	}
	return ""
}
