package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A machine is all that the checks ask, healthy until a test makes it ill.
type machine struct {
	os, version, help string
	files             fstest.MapFS
	noBwrap, setID    bool
	groups            string // of the user of macOS
	open              bool   // sandbox-exec enforces nothing
	says              string // by which a start fails
	landlock          int
	landlockErr       error
	filterErr         error
	without           Without
	control           Groups
}

func healthy() *machine {
	m := &machine{os: "linux", version: "bubblewrap 0.11.0\n", help: strings.Join(neededPreflight(Without{}), "\n"), landlock: 5, files: fstest.MapFS{}, control: Groups{Manager: "--user", Controllers: []string{"cpu", "memory", "pids"}}}
	m.set("proc/sys/kernel/osrelease", "6.12.0-amd64\n")
	m.set("proc/sys/user/max_user_namespaces", "63000\n")
	m.set("etc/os-release", "ID=debian\n")
	return m
}

func (m *machine) set(path, content string) { m.files[path] = &fstest.MapFile{Data: []byte(content)} }

func (m *machine) host() Host {
	return Host{
		OS: m.os, Without: m.without,
		ReadFile: func(p string) ([]byte, error) { return fs.ReadFile(m.files, strings.TrimPrefix(p, "/")) },
		LookPath: func(name string) (string, error) {
			if m.noBwrap {
				return "", errors.New("not found in PATH")
			}
			return "/usr/bin/" + name, nil
		},
		SetID:  func(string) (bool, error) { return m.setID, nil },
		Groups: func() Groups { return m.control },
		Run: func(_ context.Context, name string, args ...string) (string, error) {
			switch {
			case name == "/usr/bin/id" && m.groups == "":
				return "id: no\n", errors.New("exit status 1")
			case name == "/usr/bin/id":
				return m.groups + "\n", nil
			case m.os == "darwin" && strings.Contains(args[1], "deny") && !m.open:
				return "cat: Operation not permitted\n", errors.New("exit status 1")
			case args[0] == "--version":
				return m.version, nil
			case args[0] == "--help":
				return m.help, nil
			case m.says != "":
				return m.says, errors.New("exit status 1")
			}
			for _, a := range args {
				if strings.HasPrefix(a, "--disable-userns") && !strings.Contains(m.help, a) {
					return "bwrap: Unknown option " + a, errors.New("exit status 1")
				}
			}
			return m.version, nil
		},
		Landlock: func() (int, error) { return m.landlock, m.landlockErr },
		Filters:  func() error { return m.filterErr },
	}
}

func lookPreflight(t *testing.T, h Host, name string) preflightFinding {
	t.Helper()
	for _, c := range Checks() {
		if c.Name == name {
			return c.Look(context.Background(), h)
		}
	}
	t.Fatalf("there is no check %q", name)
	return preflightFinding{}
}

const (
	preflightOk2   = statusOK
	preflightWarn2 = statusWarn
	preflightFail2 = StatusFail
)

func TestChecks(t *testing.T) {
	restricted := func(m *machine) { m.set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n") }
	tests := []struct {
		name        string
		ill         func(*machine)
		check       string
		want        checkStatus
		detail, fix string // parts
	}{
		{"linux", func(*machine) {}, "platform", preflightOk2, "6.12", ""},
		{"wsl 1", func(m *machine) { m.set("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n") }, "platform", preflightFail2, "WSL 1", "--set-version"},
		{"wsl 2", func(m *machine) { m.set("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n") }, "platform", preflightOk2, "", ""},
		{"windows", func(m *machine) { m.os = "windows" }, "platform", preflightFail2, "windows", "docker"},
		{"windows needs no bwrap", func(m *machine) { m.os, m.noBwrap = "windows", true }, "bwrap", preflightOk2, "not needed", ""},
		{"macos", func(m *machine) { m.os, m.groups = "darwin", "staff admin" }, "platform", preflightOk2, "sandbox-exec", ""},
		{"macos without sandbox-exec", func(m *machine) { m.os, m.noBwrap = "darwin", true }, "platform", preflightFail2, "without sandbox-exec", "docker"},
		{"macos in another sandbox", func(m *machine) {
			m.os, m.says = "darwin", "sandbox-exec: sandbox_apply: Operation not permitted\nmore"
		}, "platform", preflightFail2, "sandbox_apply: Operation not permitted", "nested"},
		{"macos that enforces nothing", func(m *machine) { m.os, m.open = "darwin", true }, "platform", preflightFail2, "a closed file was read", "docker"},
		{"macos by no administrator", func(m *machine) { m.os, m.groups = "darwin", "staff administrators" }, "platform", preflightWarn2, "may not follow the system log", "administrator"},
		{"macos that does not say", func(m *machine) { m.os = "darwin" }, "platform", preflightWarn2, "is not known: id: no", "administrator"},

		{"bwrap", func(*machine) {}, "bwrap", preflightOk2, "/usr/bin/bwrap, bubblewrap 0.11.0", ""},
		{"none on debian", func(m *machine) { m.noBwrap = true }, "bwrap", preflightFail2, "not installed", "sudo apt-get install bubblewrap"},
		{"none on ubuntu's child", func(m *machine) {
			m.noBwrap = true
			m.set("etc/os-release", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n")
		}, "bwrap", preflightFail2, "", "apt-get"},
		{"none on fedora", func(m *machine) { m.noBwrap = true; m.set("etc/os-release", "ID=fedora\n") }, "bwrap", preflightFail2, "", "sudo dnf install bubblewrap"},
		{"none on alpine", func(m *machine) { m.noBwrap = true; m.set("etc/os-release", "ID=alpine\n") }, "bwrap", preflightFail2, "", "sudo apk add bubblewrap"},
		{"none on arch", func(m *machine) { m.noBwrap = true; m.set("etc/os-release", "ID=arch\n") }, "bwrap", preflightFail2, "", "sudo pacman -S bubblewrap"},
		{"none on something", func(m *machine) { m.noBwrap = true; delete(m.files, "etc/os-release") }, "bwrap", preflightFail2, "", "of your distribution"},
		{"old", func(m *machine) {
			m.version, m.help = "bubblewrap 0.4.1\n", strings.ReplaceAll(m.help, "--disable-userns", "")
		}, "bwrap", preflightFail2, "(older than 0.8.0), lacks --disable-userns", "upgrade"},
		{"lacks an option and is not old", func(m *machine) { m.help = strings.ReplaceAll(m.help, "--size", "") }, "bwrap", preflightFail2, "0.11.0, lacks --size", "upgrade"},
		{"set-user-id", func(m *machine) { m.setID = true }, "bwrap", preflightFail2, "set-user-id", "chmod u-s"},

		{"namespaces", func(*machine) {}, "user-namespaces", preflightOk2, "everybody", ""},
		{"no namespaces", func(m *machine) { m.set("proc/sys/user/max_user_namespaces", "0\n") }, "user-namespaces", preflightFail2, "is 0", "user.max_user_namespaces=15000"},
		{"for root only", func(m *machine) { m.set("proc/sys/kernel/unprivileged_userns_clone", "0\n") }, "user-namespaces", preflightFail2, "root only", "kernel.unprivileged_userns_clone=1"},
		{"apparmor", restricted, "user-namespaces", preflightFail2, "AppArmor", "bwrap-userns-restrict"},
		{"apparmor with a profile", func(m *machine) { restricted(m); m.set("etc/apparmor.d/bwrap-userns-restrict", "x") }, "user-namespaces", preflightOk2, "", ""},

		{"start", func(*machine) {}, "sandbox-start", preflightOk2, "starts", ""},
		{"start without bwrap", func(m *machine) { m.noBwrap = true }, "sandbox-start", preflightFail2, "not tried", "install"},
		{"start under apparmor", func(m *machine) {
			restricted(m)
			m.says = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"
		}, "sandbox-start", preflightFail2, "AppArmor restricts", "bwrap-userns-restrict"},
		{"start with no namespaces", func(m *machine) {
			m.set("proc/sys/kernel/unprivileged_userns_clone", "0\n")
			m.says = "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces."
		}, "sandbox-start", preflightFail2, "unprivileged_userns_clone is 0", "sysctl -w"},
		{"start in a container", func(m *machine) { m.says = "bwrap: No permissions to create new namespace" }, "sandbox-start", preflightFail2, "inside a container", "outside"},
		{"start at the limit", func(m *machine) { m.says = "bwrap: Creating new namespace failed: No space left on device" }, "sandbox-start", preflightFail2, "limit", "max_user_namespaces"},
		{"start where proc is masked", func(m *machine) {
			m.says = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
		}, "sandbox-start", preflightFail2, "/proc", "container"},
		{"start that says something else", func(m *machine) { m.says = "bwrap: moon is full" }, "sandbox-start", preflightFail2, "moon is full", "what bubblewrap says"},

		{"filters", func(*machine) {}, "sandbox-filters", preflightOk2, "", ""},
		{"no filters", func(m *machine) { m.filterErr = errors.New("function not implemented") }, "sandbox-filters", preflightFail2, "not implemented", "CONFIG_SECCOMP_FILTER"},
		{"landlock", func(*machine) {}, "landlock", preflightOk2, "version 5", ""},
		{"control groups", func(*machine) {}, "control-groups", preflightOk2, "made by systemd (--user)", ""},
		{"control groups of version 1", func(m *machine) { m.control = Groups{Why: "version 1", Fix: "boot"} }, "control-groups", preflightWarn2, "none for local sandboxes: version 1", "boot"},
		{"a delegated group", func(m *machine) { m.control.Manager = "" }, "control-groups", preflightOk2, "delegated to this process", ""},
		{"control groups without processors", func(m *machine) { m.control.Controllers = []string{"memory", "pids"} }, "control-groups", preflightWarn2, "without the controllers cpu", "Delegate=cpu memory pids"},
		{"no landlock", func(m *machine) { m.landlockErr = errors.New("not supported") }, "landlock", preflightFail2, "not supported", "withoutLandlock"},
		{"landlock left out", func(m *machine) { m.without.Landlock = true }, "landlock", preflightWarn2, "withoutLandlock leaves it out", "remove"},
		{"no landlock, left out", func(m *machine) { m.without.Landlock, m.landlockErr = true, errors.New("not supported") }, "landlock", preflightWarn2, "not supported", "5.13"},
		{"filters left out", func(m *machine) { m.without.Seccomp = true }, "sandbox-filters", preflightWarn2, "withoutSeccomp leaves them out", "remove"},
		{"no filters, left out", func(m *machine) { m.without.Seccomp, m.filterErr = true, errors.New("not implemented") }, "sandbox-filters", preflightWarn2, "limits.processes is held by looking from time to time; the kernel does not filter system calls as needed: not implemented", "CONFIG"},
		{"old, does not do what is left out", func(m *machine) {
			m.without.DisableUserns, m.help = true, strings.ReplaceAll(m.help, "--disable-userns", "")
		}, "bwrap", preflightOk2, "", ""},
		{"takes no filters, which are left out", func(m *machine) {
			m.without.Seccomp, m.help = true, strings.ReplaceAll(m.help, "--add-seccomp-fd", "")
		}, "bwrap", preflightOk2, "", ""},
		{"start of one that is old", func(m *machine) { m.help = strings.ReplaceAll(m.help, "--disable-userns", "") }, "sandbox-start", preflightFail2, "too old", "upgrade"},
		{"start without what is left out", func(m *machine) {
			m.without.DisableUserns, m.help = true, strings.ReplaceAll(m.help, "--disable-userns", "")
		}, "sandbox-start", preflightOk2, "", ""},
		{"old landlock", func(m *machine) { m.landlock = 1 }, "landlock", preflightWarn2, "truncation", "6.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := healthy()
			tt.ill(m)
			f := lookPreflight(t, m.host(), tt.check)
			if f.Status != tt.want || !strings.Contains(f.Detail, tt.detail) || !strings.Contains(f.Fix, tt.fix) {
				t.Errorf("%+v", f)
			}
			if (f.Status == preflightOk2) != (f.Fix == "") {
				t.Errorf("status %s with the fix %q", f.Status, f.Fix)
			}
		})
	}
}

// TestExplain holds that every complaint gets a fix, and the known ones their
// own.
func TestExplain(t *testing.T) {
	tests := []struct{ stderr, message, fix string }{
		{"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "restricts", "apparmor_parser"},
		{"bwrap: setting up uid map: Permission denied", "restricts", "apparmor_parser"},
		{"bwrap: No permissions to creating new namespace, likely because", "does not let", "sysctl"},
		{"bwrap: Unknown option --disable-userns", "too old", "upgrade"},
		{"bwrap: Can't find source path /x: Permission denied", "cannot reach", "what bubblewrap says"},
		{"bwrap: execvp true: No such file or directory", "bubblewrap failed", "what bubblewrap says"},
		{"", "bubblewrap failed", "what bubblewrap says"},
	}
	for _, tt := range tests {
		message, fix := healthy().host().Explain(tt.stderr)
		if !strings.Contains(fix, tt.fix) || !strings.Contains(message, tt.message) {
			t.Errorf("%q means %q, %q", tt.stderr, message, fix)
		}
	}
}

func TestOlder(t *testing.T) {
	tests := []struct {
		version string
		want    bool
	}{
		{"bubblewrap 0.8.0\n", false}, {"bubblewrap 0.7.9", true}, {"bubblewrap 0.10", false}, {"0.4", true},
		{"bubblewrap 1.0.0", false}, {"bubblewrap 0.8.0-2ubuntu1", false}, {"", false}, {"bubblewrap", false},
	}
	for _, tt := range tests {
		if got := olderPreflight(tt.version, "0.8.0"); got != tt.want {
			t.Errorf("%q is older: %v", tt.version, got)
		}
	}
}

// TestThisMachine holds that the checks agree with what this machine can do:
// where instances are known to start, every one of them passes.
func TestThisMachine(t *testing.T) {
	testenv.Require(t, "local")
	for _, c := range Checks() {
		if f := c.Look(context.Background(), RealHost("")); f.Status == preflightFail2 {
			t.Errorf("%s: %+v", c.Name, f)
		}
	}
}

// TestMissingProgram asks this machine for a bwrap that is not there.
func TestMissingProgram(t *testing.T) {
	h := RealHost(t.TempDir() + "/bwrap")
	for _, name := range []string{"bwrap", "sandbox-start"} {
		if f := lookPreflight(t, h, name); f.Status != preflightFail2 || f.Fix == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestHangingProgram holds that a program which hangs and floods is ended
// with the context and costs no memory.
func TestHangingProgram(t *testing.T) {
	path := t.TempDir() + "/bwrap"
	if err := os.WriteFile(path, []byte("#!/bin/sh\nhead -c 1000000 /dev/zero\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, done := context.WithCancel(context.Background())
	done()
	out, err := RealHost("").Run(ctx, path)
	if err == nil || len(out) > 16<<10 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
