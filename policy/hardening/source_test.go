package hardening_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// world is the host of the tests that touch no disk.
func world() hardening.World {
	return hardening.World{
		Sensitive:  []string{"/srv/state", "/opt/conf/sandbox", "/srv/engine/own.sock"},
		Workspaces: []string{"/srv/state/workspaces"},
		Home:       "/home/ann",
	}
}

// wantRefusal fails unless err is a refusal that names field, value and reason.
func wantRefusal(t *testing.T, err error, field, value, reason string) {
	t.Helper()
	if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Fatalf("%q gives %v; want %s", value, err, sandbox.CodeCapabilityBlocked)
	}
	e := err.(*sandbox.Error)
	if e.Field != field || e.Resource != value {
		t.Errorf("refusal names field %q and value %q; want %q and %q", e.Field, e.Resource, field, value)
	}
	if !strings.Contains(e.Message, reason) {
		t.Errorf("message %q does not give the reason %q", e.Message, reason)
	}
	if strings.ContainsAny(err.Error(), "\x00\x1b\n\r") {
		t.Errorf("message %q holds raw control characters", err.Error())
	}
}

func TestSourceRefusesBinds(t *testing.T) {
	tests := []struct{ name, source, reason string }{
		{"the root", "/", "root of the host"},
		{"the root with dots", "/./", "root of the host"},
		{"etc", "/etc", "configuration"},
		{"etc with slash", "/etc/", "configuration"},
		{"etc with many slashes", "/etc///", "configuration"},
		{"etc with dot", "/./etc/.", "configuration"},
		{"etc in upper case", "/ETC", "configuration"},
		{"etc in mixed case with slash", "/Etc/", "configuration"},
		{"below etc", "/etc/ssl/certs", "configuration"},
		{"missing leaf below etc", "/etc/no/such/thing", "configuration"},
		{"shadow", "/etc/shadow", "configuration"},
		{"proc", "/proc", "processes"},
		{"another root through proc", "/proc/1/root", "processes"},
		{"proc in upper case", "/PROC/self", "processes"},
		{"sys", "/sys", "kernel and devices"},
		{"control groups", "/sys/fs/cgroup", "kernel and devices"},
		{"dev", "/dev", "devices"},
		{"disk", "/dev/sda", "devices"},
		{"shared memory", "/dev/shm/x", "devices"},
		{"root's home", "/root", "whole home"},
		{"below root's home", "/root/project", "home of the host's root"},
		{"boot", "/boot", "kernel"},
		{"below boot", "/boot/grub/", "kernel"},
		{"run", "/run", "sockets"},
		{"run with slash", "/run/", "sockets"},
		{"below run", "/run/user/1000", "sockets"},
		{"var run", "/var/run", "sockets"},
		{"var run with slashes", "/var//run//", "sockets"},
		{"var run in mixed case", "/Var/Run", "sockets"},
		{"below var run", "/var/run/secrets", "sockets"},
		{"parent of var run", "/var", "/var/run lies in it"},
		{"parent of the engine's data", "/var/lib", "engine's own data"},
		{"engine data", "/var/lib/docker/volumes/x", "engine's own data"},
		{"engine socket", "/var/run/docker.sock", "socket of a container engine"},
		{"engine socket in upper case", "/srv/DOCKER.SOCK", "socket of a container engine"},
		{"engine socket elsewhere", "/srv/x/docker.sock", "socket of a container engine"},
		{"containerd socket", "/run/containerd/containerd.sock", "socket of a container engine"},
		{"podman socket", "/run/user/1000/podman/podman.sock", "socket of a container engine"},
		{"crio socket", "/var/run/crio/crio.sock/", "socket of a container engine"},
		{"engine socket named by the world", "/srv/engine/own.sock", "what runs the sandboxes"},
		{"folder of that socket", "/srv/engine", "lies in it"},
		{"all homes", "/home", "whole home"},
		{"all homes in upper case", "/HOME/", "whole home"},
		{"own home", "/home/ann", "whole home"},
		{"own home with slash", "/home/ann//", "whole home"},
		{"another home", "/home/bob", "whole home"},
		{"home on macOS", "/Users/ann", "whole home"},
		{"ssh", "/home/ann/.ssh", "~/.ssh holds credentials"},
		{"a key", "/home/ann/.ssh/id_ed25519", "~/.ssh holds credentials"},
		{"ssh in upper case", "/home/ann/.SSH", "~/.ssh holds credentials"},
		{"ssh of another user", "/home/bob/.ssh", "~/.ssh holds credentials"},
		{"copy of ssh", "/srv/backup/ann/.ssh", "~/.ssh holds credentials"},
		{"aws", "/home/ann/.aws/", "~/.aws holds credentials"},
		{"gnupg", "/home/ann/.gnupg", "~/.gnupg holds credentials"},
		{"gcloud", "/home/ann/.config/gcloud", "~/.config/gcloud holds credentials"},
		{"parent of gcloud", "/home/ann/.config", "lies in it"},
		{"parent of gcloud of another user", "/home/bob/.config", "~/.config/gcloud lies in it"},
		{"azure", "/home/ann/.azure", "~/.azure holds credentials"},
		{"kube", "/home/ann/.kube/config", "~/.kube holds credentials"},
		{"docker logins", "/home/ann/.docker/config.json", "~/.docker holds credentials"},
		{"netrc", "/home/ann/.netrc", "~/.netrc holds credentials"},
		{"git credentials", "/home/ann/.git-credentials", "~/.git-credentials holds credentials"},
		{"state folder", "/srv/state", "what runs the sandboxes"},
		{"state folder in upper case", "/SRV/State/", "what runs the sandboxes"},
		{"below the state folder", "/srv/state/registry", "what runs the sandboxes"},
		{"workspace of another sandbox", "/srv/state/workspaces/other", "workspaces of other sandboxes"},
		{"logs", "/var/log", "host's logs"},
		{"below logs", "/var/log/journal", "host's logs"},
		{"kernel modules", "/lib/modules", "modules of the host's kernel"},
		{"kernel modules in merged usr", "/usr/lib/modules/6.1", "modules of the host's kernel"},
		{"parent of the state folder", "/srv", "lies in it"},
		{"settings folder", "/opt/conf/sandbox", "what runs the sandboxes"},
		{"settings file", "/opt/conf/sandbox/sandbox.json", "what runs the sandboxes"},
		{"empty", "", "empty"},
		{"relative", "data/x", "relative"},
		{"relative with dot", "./data", "relative"},
		{"named volume", "data", "name of a volume"},
		{"home sign", "~", "home that was not expanded"},
		{"another user's home sign", "~bob/data", "home that was not expanded"},
		{"Windows drive", `C:\Users`, "Windows drive"},
		{"Windows drive with slash", "c:/data", "Windows drive"},
		{"UNC", `\\server\share`, "UNC"},
		{"UNC with slashes", "//server/share", "UNC"},
		{"etc with two slashes in front", "//etc", "UNC"},
		{"backslash", `/data\..\etc`, "backslash"},
		{"dotdot to etc", "/data/../etc", "contains .."},
		{"dotdot that leads nowhere bad", "/data/x/..", "contains .."},
		{"colon", "/data:x", "colon"},
		{"NUL", "/data\x00/etc", "NUL"},
		{"newline", "/data\n/etc", "control"},
		{"escape", "/data\x1b[2J", "control"},
		{"reordered text", "/data/\u202egpj", "invisible"},
		{"zero width", "/et\u200bc", "invisible"},
		{"invalid UTF-8", "/data/\xff", "UTF-8"},
		{"too long", "/" + strings.Repeat("x", 4096), "longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := hardening.Source("docker.binds[0]", tt.source, sandbox.RoleBind, world(), hardening.Switches{})
			wantRefusal(t, err, "docker.binds[0]", tt.source, tt.reason)
		})
	}
}

func TestSourceAllows(t *testing.T) {
	tests := []struct {
		name, source string
		role         sandbox.Role
	}{
		{"data folder", "/data/maps", sandbox.RoleBind},
		{"trailing slash", "/data/maps/", sandbox.RoleBind},
		{"folder in a home", "/home/ann/projects/x", sandbox.RoleBind},
		{"folder in another home", "/home/bob/shared", sandbox.RoleBind},
		{"name that starts like etc", "/etcetera", sandbox.RoleBind},
		{"name that starts like run", "/running", sandbox.RoleBind},
		{"name that starts like ssh", "/data/.sshfs", sandbox.RoleBind},
		{"beside the state folder", "/srv/state2", sandbox.RoleBind},
		{"below var", "/var/cache/x", sandbox.RoleBind},
		{"spaces and letters of the world", "/data/Ärger und 数据", sandbox.RoleBind},
		{"our workspace", "/srv/state/workspaces/sbx-a", sandbox.RoleWorkspace},
		{"programs to read", "/usr/share/zoneinfo", sandbox.RoleBind},
		{"libraries to read", "/usr/lib", sandbox.RoleBind},
		{"project below root's home", "/root/projects/x", sandbox.RoleWorkspace},
		{"agent's folder below root's home", "/root/agents/x", sandbox.RoleAgent},
		{"guest", "/srv/state/guest/0a", sandbox.RoleGuest},
		{"socket folder", "/srv/state/run/0a", sandbox.RoleSocket},
		{"identity", "/srv/state/identity/passwd", sandbox.RoleIdentity},
		{"certificates", "/srv/state/egress/trust", sandbox.RoleTrust},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := world()
			w.Name = "sbx-a"
			if err := hardening.Source("f", tt.source, tt.role, w, hardening.Switches{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestSourceRefusesWorkspaces(t *testing.T) {
	tests := []struct{ name, source, home, reason string }{
		{"the home of root", "/root", "/root", "whole home"},
		{"credentials of root", "/root/.ssh", "/root", "credentials"},
		{"parent of credentials of root", "/root/.config", "/root", "lies in it"},
		{"own home", "/home/ann", "/home/ann", "whole home"},
		{"a home at an unusual place", "/srv/ann", "/srv/ann", "whole home"},
		{"credentials there", "/srv/ann/.config", "/srv/ann", "lies in it"},
		{"above the home", "/srv", "/srv/ann", "lies in it"},
		{"etc", "/etc/agent", "/root", "configuration"},
		{"run", "/run/agent", "/root", "sockets"},
		{"the state folder", "/srv/state", "/root", "what runs the sandboxes"},
		{"the folder of all workspaces", "/srv/state/workspaces", "/root", "what runs the sandboxes"},
		{"another part of the state folder", "/srv/state/registry", "/root", "what runs the sandboxes"},
		{"engine socket among workspaces", "/srv/state/workspaces/docker.sock", "/root", "socket of a container engine"},
		{"another sandbox's workspace", "/srv/state/workspaces/sbx-b", "/root", "workspaces of other sandboxes"},
		{"a name that starts like ours", "/srv/state/workspaces/sbx-a2", "/root", "workspaces of other sandboxes"},
		{"below our own workspace", "/srv/state/workspaces/sbx-a/sub", "/root", "workspaces of other sandboxes"},
		{"our notes about workspaces", "/srv/state/workspaces/.meta", "/root", "workspaces of other sandboxes"},
		{"our name elsewhere in the state folder", "/srv/state/sbx-a", "/root", "what runs the sandboxes"},
		{"relative", "agents/x", "/root", "relative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := world()
			w.Home, w.Name = tt.home, "sbx-a"
			for _, role := range []sandbox.Role{sandbox.RoleWorkspace, sandbox.RoleAgent} {
				open := hardening.Switches{BindSources: []string{tt.source}}
				err := hardening.Source("agents.list[0].workspace", tt.source, role, w, open)
				wantRefusal(t, err, "agents.list[0].workspace", tt.source, tt.reason)
			}
		})
	}
}

// links makes a folder with links to forbidden places and a world around it.
func links(t *testing.T) (string, hardening.World) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"data", "state/workspaces/w", "home/.ssh", "own"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"data/etc":      "/etc",
		"data/chain":    "etc",
		"data/top":      "/",
		"data/proc":     "/proc",
		"data/self":     "/proc/self/root",
		"data/run":      "/run",
		"data/sock":     "/var/run/docker.sock",
		"data/dangling": "/etc/no-such-thing",
		"data/keys":     filepath.Join(root, "home/.ssh"),
		"data/home":     filepath.Join(root, "home"),
		"data/state":    "../state",
		"data/up":       "../../../../../../../../../../boot",
		"data/fine":     filepath.Join(root, "own"),
		"parent":        "/",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root, hardening.World{
		Canonical:  hostpath.Canonical,
		Sensitive:  []string{filepath.Join(root, "state")},
		Workspaces: []string{filepath.Join(root, "state/workspaces")},
		Home:       filepath.Join(root, "home"),
	}
}

func TestSourceRefusesWhatLinksLeadTo(t *testing.T) {
	root, w := links(t)
	tests := []struct{ name, source, reason string }{
		{"link to etc", "data/etc", `leads to "/etc"`},
		{"link to etc with slash", "data/etc/", `leads to "/etc"`},
		{"link to etc with double slash", "data//etc", `leads to "/etc"`},
		{"link to a link", "data/chain", `leads to "/etc"`},
		{"below a link", "data/etc/ssl", "configuration"},
		{"missing leaf below a link", "data/etc/none/at/all", `leads to "/etc/none/at/all"`},
		{"dangling link", "data/dangling", `leads to "/etc/no-such-thing"`},
		{"below a dangling link", "data/dangling/x", "configuration"},
		{"link to the root", "data/top", `leads to "/"`},
		{"etc through a linked parent", "parent/etc", `leads to "/etc"`},
		{"missing leaf through a linked parent", "parent/boot/none", `leads to "/boot/none"`},
		{"link to proc", "data/proc", `leads to "/proc"`},
		{"the root through proc", "data/self", `leads to "/"`},
		{"link to run", "data/run", `leads to "/run"`},
		{"link to the engine's socket", "data/sock", "socket of a container engine"},
		{"link to credentials", "data/keys", "credentials"},
		{"missing leaf in linked credentials", "data/keys/id_new", "credentials"},
		{"link to the home", "data/home", "whole home"},
		{"relative link to the state folder", "data/state", "what runs the sandboxes"},
		{"workspace of another sandbox through a link", "data/state/workspaces/w", "workspaces of other sandboxes"},
		{"link that climbs", "data/up", `leads to "/boot"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := root + "/" + tt.source
			err := hardening.Source("docker.binds[3]", source, sandbox.RoleBind, w, hardening.Switches{})
			wantRefusal(t, err, "docker.binds[3]", source, tt.reason)
		})
	}
	t.Run("harmless link passes", func(t *testing.T) {
		if err := hardening.Source("f", root+"/data/fine", sandbox.RoleBind, w, hardening.Switches{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("workspace swapped for a link to state", func(t *testing.T) {
		swapped := root + "/state/workspaces/x"
		if err := os.Symlink(root+"/state", swapped); err != nil {
			t.Fatal(err)
		}
		w := w
		w.Name = "x"
		err := hardening.Source("f", swapped, sandbox.RoleWorkspace, w, hardening.Switches{})
		wantRefusal(t, err, "f", swapped, "what runs the sandboxes")
	})
	t.Run("loop of links", func(t *testing.T) {
		loop := root + "/loop"
		if err := os.Symlink("loop", loop); err != nil {
			t.Fatal(err)
		}
		err := hardening.Source("f", loop, sandbox.RoleBind, w, hardening.Switches{})
		wantRefusal(t, err, "f", loop, "is not known")
	})
}

func TestSwitchOpensExactlyOneSource(t *testing.T) {
	open := hardening.Switches{BindSources: []string{"/etc/ssl/certs", "/run/agentd"}}
	for source, want := range map[string]bool{
		"/etc/ssl/certs":       true,
		"/etc/ssl/certs/":      true,
		"/run/agentd":          true,
		"/var/run/agentd":      true,
		"/etc/ssl":             false,
		"/etc/ssl/certs/x.pem": false,
		"/etc/SSL/certs":       false,
		"/etc":                 false,
	} {
		err := hardening.Source("f", source, sandbox.RoleBind, world(), open)
		if (err == nil) != want {
			t.Errorf("Source(%q) = %v; allowed should be %v", source, err, want)
		}
	}
}

func TestSwitchNeverOpensTheEngine(t *testing.T) {
	for _, source := range []string{
		"/", "/run", "/var/run", "/var", "/run/docker.sock", "/var/run/docker.sock",
		"/srv/engine/own.sock", "/srv/engine", "/srv/x/containerd.sock",
	} {
		open := hardening.Switches{BindSources: []string{source}}
		if err := hardening.Source("f", source, sandbox.RoleBind, world(), open); err == nil {
			t.Errorf("%s was opened by a switch", source)
		} else if strings.Contains(err.Error(), hardening.SwitchBindSources) {
			t.Errorf("the refusal of %s recommends a switch that does not work: %v", source, err)
		}
	}
}

// FuzzSource holds that whatever passes is a clean absolute path outside the
// reserved places, by an independent and simpler reading of the rules.
func FuzzSource(f *testing.F) {
	for _, s := range []string{"/data", "/etc/../x", "/ETC", "~", "/a//b/", "/run\x00", "/srv/.ssh"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if hardening.Source("f", s, sandbox.RoleBind, world(), hardening.Switches{}) != nil {
			return
		}
		clean := strings.ToLower(filepath.Clean(s))
		if !strings.HasPrefix(s, "/") || clean == "/" || strings.Contains(s, "..") && strings.Contains(s+"/", "/../") {
			t.Fatalf("%q passed", s)
		}
		for _, p := range []string{"/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/run", "/var/run", "/srv/state"} {
			if clean == p || strings.HasPrefix(clean, p+"/") || strings.HasPrefix(p, clean+"/") {
				t.Fatalf("%q passed although %s is reserved", s, p)
			}
		}
		for _, c := range []string{".ssh", ".aws", ".kube", "docker.sock"} {
			if strings.Contains(clean+"/", "/"+c+"/") {
				t.Fatalf("%q passed although it holds %s", s, c)
			}
		}
	})
}
