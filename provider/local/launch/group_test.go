package launch

import (
	"reflect"
	"strings"
	"testing"
)

// TestFindGroups holds where groups are made, and what is said where there are none.
func TestFindGroups(t *testing.T) {
	all := Bounds{Memory: 1, PIDs: 1, NanoCPUs: 1}
	for _, tt := range []struct {
		name      string
		uid       int
		own       string
		unified   bool
		there     string
		delegated string
		busctl    bool

		manager, base, why string
		lacks              []string
	}{
		{"version 1", 0, "1:name=systemd:/\n0::/\n", false, "/run/systemd/system", "", true, "", "", "version 1 cannot be delegated", []string{"cpu", "memory", "pids"}},
		{"root", 0, "0::/system.slice/ssh.service\n", true, "/run/systemd/system", "", true, "--system", "/sys/fs/cgroup", "", nil},
		{"a user", 7, "0::/user.slice/user-7.slice/session-1.scope\n", true, "/run/systemd/system /run/user/7/bus", "", true, "--user", "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service", "", []string{"cpu"}},
		{"a user without a manager", 7, "0::/user.slice/user-7.slice/session-1.scope\n", true, "/run/systemd/system /run/user/8/bus", "", true, "", "", "/run/user/7/bus", []string{"cpu", "memory", "pids"}},
		{"without busctl", 0, "0::/\n", true, "/run/systemd/system", "", false, "", "", "there is no busctl", []string{"cpu", "memory", "pids"}},
		{"a service that may", 7, "0::/system.slice/d.service\n", true, "/run/systemd/system", "/sys/fs/cgroup/system.slice/d.service", true, "", "/sys/fs/cgroup/system.slice/d.service", "", nil},
		{"the same, moved", 7, "0::/system.slice/d.service/supervisor\n", true, "/run/systemd/system", "/sys/fs/cgroup/system.slice/d.service", true, "", "/sys/fs/cgroup/system.slice/d.service", "", nil},
		{"no systemd", 0, "0::/x\n", true, "", "", true, "", "", "there is no systemd", []string{"cpu", "memory", "pids"}},
		{"the root itself", 0, "0::/\n", true, "", "/sys/fs/cgroup", true, "", "", "there is no systemd", []string{"cpu", "memory", "pids"}},
		{"garbage", 0, "0:", true, "", "", true, "", "", "there is no systemd", []string{"cpu", "memory", "pids"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := findGroups(tt.uid, tt.own, tt.unified,
				func(path string) bool { return strings.Contains(" "+tt.there+" ", " "+path+" ") },
				func(path string) string {
					if strings.Contains(path, "user@7") {
						return "memory pids\n"
					}
					return "cpuset cpu io memory hugetlb pids rdma\n"
				},
				func(dir string) bool { return dir == tt.delegated }, tt.busctl)
			if g.Manager != tt.manager || tt.why == "" && (g.Why != "" || g.Base != tt.base) || !strings.Contains(g.Why, tt.why) || (g.Why == "") != (g.Fix == "") {
				t.Errorf("%+v", g)
			}
			if got := g.Lacks(all); len(got)+len(tt.lacks) > 0 && !reflect.DeepEqual(got, tt.lacks) {
				t.Errorf("it lacks %v, want %v", got, tt.lacks)
			}
			within, has := g.Within(all)
			if has != (g.Why == "") || has && within.Memory != 1 || (within.NanoCPUs == 1) != (len(tt.lacks) == 0) {
				t.Errorf("%+v, %v", within, has)
			}
			if _, has := g.Within(Bounds{}); has {
				t.Error("there is a group for nothing")
			}
		})
	}
}
