package providertest

import (
	"context"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// shellOpenChecks hold how a shell begins.
func shellOpenChecks() []Check {
	return []Check{
		{Name: "a shell has its id and names its program", run: shellIdentity},
		{Name: "a shell starts in its dir or the workdir", run: shellDir},
		{Name: "a shell has the sandbox's environment and over it its own", run: shellEnvironment, alone: true},
		{Name: "a shell is bound by the limits of its handle", run: shellLimits},
		{Name: "a shell in a missing dir is an error", run: shellMissingDir},
		{Name: "a shell under an ended context is not opened", run: shellEndedContext},
	}
}

func shellIdentity(r *rig) {
	sb, first := r.shellBox()
	second := r.shell(sb, sandbox.ShellOptions{})
	if first.ID() == "" || first.ID() == second.ID() {
		r.Errorf("shells without a name are called %q and %q", first.ID(), second.ID())
	}
	named := r.shell(sb, sandbox.ShellOptions{ID: "build 1"})
	if named.ID() != "build 1" {
		r.Errorf("the shell %q is called %q", "build 1", named.ID())
	}
	_, found, _ := r.runLine(named, `echo "${BASH_VERSION:+bash}"`)
	want := "sh"
	if found == "bash\n" {
		want = "bash"
	}
	if got := named.Program(); got != want {
		r.Errorf("Program says %q, a line finds %q", got, want)
	}
}

func shellDir(r *rig) {
	r.needShells()
	s, sb := r.box("a")
	for dir, want := range map[string]string{"": s.Workdir, ".": s.Workdir, "/": "/", "/tmp": "/tmp"} {
		r.says(r.shell(sb, sandbox.ShellOptions{Dir: dir}), "pwd", want+"\n")
	}
	s.Workdir = "/tmp"
	r.says(r.shell(r.open(s), sandbox.ShellOptions{}), "pwd", "/tmp\n")
}

func shellEnvironment(r *rig) {
	r.needShells()
	r.Setenv(hostVariable, "leaked")
	s := r.spec("a")
	s.Env = map[string]string{"FROM_SPEC": "spec", "BOTH": "spec", "ODD": `a=b "c" $d '日本'`}
	r.create(s)
	sb := r.open(s)
	sh := r.shell(sb, sandbox.ShellOptions{Env: map[string]string{"BOTH": "shell", "FROM_SHELL": "shell"}})
	r.says(sh, `echo "$FROM_SPEC $BOTH $FROM_SHELL"; printf %s "$ODD"`, "spec shell shell\n"+s.Env["ODD"])
	r.says(sh, `sh -c 'echo "$FROM_SPEC $BOTH $FROM_SHELL"'`, "spec shell shell\n")
	if _, all, _ := r.runLine(sh, "env"); strings.Contains(all, hostVariable) || !strings.Contains(all, "PATH=") {
		r.Errorf("the environment of a shell is %.2000q", all)
	}
	r.says(r.shell(sb, sandbox.ShellOptions{}), `echo "$BOTH ${FROM_SHELL-unset}"`, "spec unset\n")
}

func shellLimits(r *rig) {
	r.needShells()
	s := r.spec("a")
	s.Limits.OpenFiles = 64
	r.create(s)
	r.says(r.shell(r.open(s), sandbox.ShellOptions{}), "ulimit -n", "64\n")
}

func shellMissingDir(r *rig) {
	r.needShells()
	_, sb := r.box("a")
	for _, dir := range []string{"/no/such/dir", "/etc/passwd"} {
		sh, err := sb.OpenShell(r.ctx, sandbox.ShellOptions{Dir: dir})
		r.wantCode("OpenShell in "+dir, err, sandbox.CodeExecution, sandbox.CodeValidation)
		if sh != nil && err != nil {
			r.Errorf("OpenShell in %s gave a shell beside its error", dir)
		}
	}
	r.works(sb)
}

func shellEndedContext(r *rig) {
	r.needShells()
	_, sb := r.box("a")
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	sh, err := sb.OpenShell(ctx, sandbox.ShellOptions{})
	r.wantCode("OpenShell", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
	if sh != nil && err != nil {
		r.Error("OpenShell gave a shell beside its error")
	}
}
