package violation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
)

// rules is a sandbox with a workspace that may be written, system folders that
// may be read, and one secret folder that a built-in deny rule closes.
type rules struct{ asked int }

func (r *rules) Judge(op sandbox.Operation, p string) sandbox.Verdict {
	r.asked++
	below := func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
	switch {
	case below("/home/u/.ssh"), strings.HasSuffix(p, "/.env"):
		return sandbox.Verdict{Rule: "filesystem.denyRead", Builtin: true, HostPath: p}
	case below("/workspace"), below("/tmp"):
		return sandbox.Verdict{Allowed: true, Rule: "workspace"}
	case (below("/usr") || below("/etc") || below("/bin")) && op == sandbox.OpRead:
		return sandbox.Verdict{Allowed: true, Rule: "system"}
	}
	return sandbox.Verdict{Rule: "filesystem.allow" + strings.ToUpper(string(op[:1])) + string(op[1:]), HostPath: p}
}

// TestWordings checks what real programs say against the rules.
func TestWordings(t *testing.T) {
	const read, write = sandbox.OpRead, sandbox.OpWrite
	tests := []struct {
		name, stderr string
		op           sandbox.Operation
		path         string // empty: not blocked
	}{
		{"coreutils reading", "cat: /home/u/a: Permission denied\n", read, "/home/u/a"},
		{"coreutils in UTF-8", "mkdir: cannot create directory ‘/usr/x’: Read-only file system\n", write, "/usr/x"},
		{"coreutils in ASCII", "touch: cannot touch '/usr/a b': Permission denied\n", write, "/usr/a b"},
		{"coreutils of old", "rm: cannot remove `/usr/bin/ls': Permission denied\n", write, "/usr/bin/ls"},
		{"two names", "mv: cannot move '/workspace/a' to '/usr/b': Permission denied", write, "/usr/b"},
		{"name with blanks, bare", "cat: /home/u/a b: Permission denied\n", read, "/home/u/a b"},
		{"relative name", "cat: ../home/u/x: Permission denied\n", read, "/home/u/x"},
		{"relative name without slash", "cat: .env: Permission denied\n", read, "/workspace/.env"},
		{"find", "find: ‘/home/u’: Permission denied", read, "/home/u"},
		{"bash writing", "bash: line 1: /usr/x: Read-only file system\n", write, "/usr/x"},
		{"bash reading", "bash: /home/u/x: Permission denied\n", read, "/home/u/x"},
		{"dash", "sh: 1: cannot create /usr/x: Permission denied\n", write, "/usr/x"},
		{"busybox", "cat: can't open '/home/u/x': Permission denied\n", read, "/home/u/x"},
		{"python", "Traceback (most recent call last):\n  File \"/workspace/a.py\", line 1, in <module>\n    open('/home/u/x')\nPermissionError: [Errno 13] Permission denied: '/home/u/x'\n", read, "/home/u/x"},
		{"python writing", "OSError: [Errno 30] Read-only file system: \"/usr/it's\"\n", write, "/usr/it's"},
		{"python with escapes", `PermissionError: [Errno 13] Permission denied: '/home/u/it\'s "x"'`, read, `/home/u/it's "x"`},
		{"node", "Error: EACCES: permission denied, open '/home/u/x'\n    at Object.openSync (node:fs:601:3) {\n  errno: -13,\n  code: 'EACCES'\n}", read, "/home/u/x"},
		{"node making", "Error: EROFS: read-only file system, mkdir '/usr/x'", write, "/usr/x"},
		{"node unlinking", "Error: EPERM: operation not permitted, unlink '/usr/x'", write, "/usr/x"},
		{"node in colours", "\x1b[31mError: EACCES: permission denied, scandir '/home/u'\x1b[39m", read, "/home/u"},
		{"go", "panic: open /home/u/x: permission denied", read, "/home/u/x"},
		{"go making", "2026/01/02 15:04:05 mkdir /usr/x: permission denied", write, "/usr/x"},
		{"go with quotes", `stat "/home/u/x": operation not permitted`, read, "/home/u/x"},
		{"git", "fatal: could not create work tree dir '/usr/x': Permission denied", write, "/usr/x"},
		{"git lock", "error: could not lock config file /usr/.git/config: Read-only file system", write, "/usr/.git/config"},
		{"git access", "warning: unable to access '/home/u/.config/git': Permission denied", read, "/home/u/.config/git"},
		{"perl", "Can't open /home/u/x: Permission denied at -e line 1.", read, "/home/u/x"},
		{"perl writing", "Cannot open '/usr/x' for writing: Permission denied at -e line 1.", write, "/usr/x"},
		{"ruby", "-e:1:in `initialize': Permission denied @ rb_sysopen - /home/u/x (Errno::EACCES)", read, "/home/u/x"},
		{"ruby making", "-e:1:in `mkdir': Permission denied @ dir_s_mkdir - /usr/x (Errno::EACCES)", write, "/usr/x"},
		{"rust", "Error: failed to read /home/u/x: Permission denied (os error 13)", read, "/home/u/x"},
		{"rust with quotes", "Error: could not write `/usr/x`: Read-only file system (os error 30)", write, "/usr/x"},
		{"java", "java.nio.file.AccessDeniedException: /home/u/x", read, "/home/u/x"},
		{"java of old", "java.io.FileNotFoundException: /home/u/x (Permission denied)", read, "/home/u/x"},
		{"java writing", "java.nio.file.FileSystemException: /usr/x: Read-only file system", write, "/usr/x"},
		{"line number behind it", "lint: /home/u/x.go:3:1: permission denied", read, "/home/u/x.go"},
		{"assignment", "load failed: path=/home/u/x: permission denied", read, "/home/u/x"},

		{"mode of a file that may be read", "cat: /workspace/locked: Permission denied\n", "", ""},
		{"mode of a file below the system", "cat: /etc/sudoers: Permission denied\n", "", ""},
		{"mode, and the reader says not what it did", "PermissionError: [Errno 13] Permission denied: '/etc/sudoers'", "", ""},
		{"relative in the workspace", "cat: a/b: Permission denied\n", "", ""},
		{"no path", "Permission denied\n", "", ""},
		{"no denial", "cat: /home/u/a: No such file or directory\n", "", ""},
		{"a denial on another line", "see /home/u/a\nPermission denied\n", "", ""},
		{"an address of the web", "fetch https://x.org/home/u: permission denied", "", ""},
		{"part of a word", "/home/u is a temperment\n", "", ""},
		{"ssh", "git@example.org: Permission denied (publickey).", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := violation.Ending{Exit: sandbox.Exit{Code: 1}, Dir: "/workspace", Stderr: []byte(tt.stderr), At: time.Unix(1, 0)}
			f := violation.Classify(&rules{}, e)
			if f.Blocked != (tt.path != "") || f.Resource != tt.path || f.Blocked && f.Causes[0].Operation != tt.op {
				t.Errorf("blocked %v, %q; %+v", f.Blocked, f.Resource, f.Violations)
			}
			for _, c := range f.Causes {
				if c.Evidence != sandbox.EvidenceStrong || c.Resource != tt.path {
					t.Errorf("cause %+v", c)
				}
			}
			e.Exit.Code = 0
			if f := violation.Classify(&rules{}, e); f.Blocked || len(f.Violations) != 0 {
				t.Errorf("a success counts as blocked: %+v", f)
			}
		})
	}
}

func TestTiers(t *testing.T) {
	seen := sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: "/usr/x", Rule: "r", Program: "sh", PID: 7, Time: time.Unix(2, 0)}
	other := sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: "/usr/cache", Rule: "r"}
	call := sandbox.Violation{Kind: sandbox.ResourceSyscall, Operation: sandbox.OpConnect, Resource: "socket", Rule: "seccomp"}
	tests := []struct {
		name     string
		code     int
		observed []sandbox.Violation
		stderr   string
		blocked  string   // the resource, or empty
		want     []string // evidence, operation and resource
	}{
		{"seen", 1, []sandbox.Violation{seen}, "", "/usr/x", []string{"certain write /usr/x"}},
		{"seen, and it went well", 0, []sandbox.Violation{seen}, "x: /home/u/y: Permission denied", "", []string{"certain write /usr/x"}},
		{"seen and said", 1, []sandbox.Violation{other, seen}, "sh: 1: cannot create /usr/x: Permission denied", "/usr/x",
			[]string{"certain write /usr/cache", "certain write /usr/x"}},
		{"said beats seen aside", 1, []sandbox.Violation{other}, "cat: /home/u/y: Permission denied", "/home/u/y",
			[]string{"certain write /usr/cache", "strong read /home/u/y"}},
		{"seen twice", 1, []sandbox.Violation{seen, seen}, "", "/usr/x", []string{"certain write /usr/x"}},
		{"a system call", 1, []sandbox.Violation{call}, "", "socket", []string{"certain connect socket"}},
		{"named", 1, nil, "cat: /home/u/y: No such file or directory", "", []string{"weak read /home/u/y"}},
		{"named, then said", 1, nil, "look at /home/u/y\ncat: /home/u/y: Permission denied", "/home/u/y", []string{"strong read /home/u/y"}},
		{"mode or rule", 1, nil, "PermissionError: [Errno 13] Permission denied: '/usr/y'", "", []string{"weak write /usr/y"}},
		{"killed", 137, []sandbox.Violation{seen}, "", "/usr/x", []string{"certain write /usr/x"}},
		{"nothing", 1, nil, "it broke", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := violation.Classify(&rules{}, violation.Ending{Exit: sandbox.Exit{Code: tt.code}, Dir: "/workspace", Stderr: []byte(tt.stderr), Observed: tt.observed})
			var got []string
			for _, v := range f.Violations {
				got = append(got, fmt.Sprint(v.Evidence, " ", v.Operation, " ", v.Resource))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
			if f.Resource != tt.blocked || f.Blocked != (tt.blocked != "") || f.Blocked != (f.Reason != "") {
				t.Errorf("blocked %v %q %q", f.Blocked, f.Resource, f.Reason)
			}
		})
	}
	if f := violation.Classify(nil, violation.Ending{Exit: sandbox.Exit{Code: 1}, Stderr: []byte("cat: /home/u/y: Permission denied")}); len(f.Violations) != 0 {
		t.Errorf("without rules: %+v", f)
	}
}

// TestNetwork checks what a connection that was refused makes of a command.
func TestNetwork(t *testing.T) {
	refused := func(host, rule string) sandbox.Violation {
		return sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: host, Rule: rule, Evidence: sandbox.EvidenceCertain}
	}
	seen := []sandbox.Violation{refused("a.example:443", "network.allowedDomains"), refused("10.0.0.1:80", "address"), refused("a.example:443", "sni")}
	tests := []struct {
		name     string
		exit     int
		stderr   string
		seen     []sandbox.Violation
		reported int
		reason   string
	}{
		{"it did without", 0, "", seen, 2, ""},
		{"it failed", 7, "", seen, 2, "connect a.example:443: denied: sni (refused on the way out)"},
		{"it tried another one last", 7, "", seen[:2], 2, "connect 10.0.0.1:80: denied: address (refused on the way out)"},
		{"it failed for want of a path", 1, "cat: /home/u/x: Permission denied", seen, 3, "read /home/u/x: denied: filesystem.allowRead (reported by the program)"},
		{"nothing was refused", 7, "curl: (7) Failed to connect to a.example port 443", nil, 0, ""},
		{"a program that only says so", 1, "connect a.example:443: denied: network.allowedDomains (refused on the way out)", nil, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := violation.Classify(&rules{}, violation.Ending{Exit: sandbox.Exit{Code: tt.exit}, Dir: "/workspace", Stderr: []byte(tt.stderr), Observed: tt.seen})
			if f.Reason != tt.reason || f.Blocked != (tt.reason != "") || len(f.Violations) != tt.reported {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestMany checks that what is reported is bounded, and that nothing certain
// falls to what is weak.
func TestMany(t *testing.T) {
	var out strings.Builder
	for i := range 500 {
		fmt.Fprintf(&out, "look at /home/u/%d\n", i)
	}
	var seen []sandbox.Violation
	for i := range 100 {
		seen = append(seen, sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: fmt.Sprint("/usr/", i)})
	}
	f := violation.Classify(&rules{}, violation.Ending{Exit: sandbox.Exit{Code: 1}, Stderr: []byte(out.String())})
	if len(f.Violations) != 8 || f.Blocked {
		t.Errorf("%d weak ones, blocked %v", len(f.Violations), f.Blocked)
	}
	f = violation.Classify(&rules{}, violation.Ending{Exit: sandbox.Exit{Code: 1}, Stderr: []byte(out.String()), Observed: seen})
	if len(f.Violations) != violation.MaxViolations || f.Violations[violation.MaxViolations-1].Evidence != sandbox.EvidenceCertain {
		t.Errorf("%d in all, the last %+v", len(f.Violations), f.Violations[len(f.Violations)-1])
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("cat: ‘/home/u/x’: Permission denied\n", "/workspace", 1)
	f.Add("Error: EACCES: permission denied, open '/home/u/x'", "", 2)
	f.Add(": ' \" ` ‘ “ /\x00: permission denied @ - (", "/", 0)
	f.Fuzz(func(t *testing.T, stderr, dir string, code int) {
		j := &rules{}
		got := violation.Classify(j, violation.Ending{Exit: sandbox.Exit{Code: code}, Dir: dir, Stderr: []byte(stderr)})
		if code == 0 && (got.Blocked || len(got.Violations) > 0) {
			t.Fatalf("a success is blocked: %+v", got)
		}
		if got.Blocked != (len(got.Causes) > 0) || got.Blocked != (got.Resource != "") {
			t.Fatalf("%+v", got)
		}
		for _, v := range got.Violations {
			if j.Judge(v.Operation, v.Resource).Allowed || !strings.HasPrefix(v.Resource, "/") {
				t.Fatalf("not denied: %+v", v)
			}
		}
	})
}
