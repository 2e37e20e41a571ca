package providertest

import (
	"context"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
)

// shellChecks hold the contract of persistent shells.
func shellChecks() []Check {
	var all []Check
	for _, group := range [][]Check{shellOpenChecks(), shellStateChecks(), shellOutputChecks(), shellEndChecks(), shellTurnChecks(), shellCloseChecks()} {
		all = append(all, group...)
	}
	return all
}

// needShells ends the check where the provider says that it has no shells;
// another check holds that it says so by CodeUnsupported as well.
func (r *rig) needShells() {
	r.Helper()
	if !r.p.Features().Shells {
		r.Skip("the provider says that it has no shells")
	}
}

// shellBox creates and opens one sandbox with a shell in it.
func (r *rig) shellBox() (sandbox.Sandbox, sandbox.Shell) {
	r.Helper()
	r.needShells()
	_, sb := r.box("a")
	return sb, r.shell(sb, sandbox.ShellOptions{})
}

func (r *rig) shell(sb sandbox.Sandbox, o sandbox.ShellOptions) sandbox.Shell {
	r.Helper()
	sh, err := sb.OpenShell(r.ctx, o)
	if err != nil {
		r.Fatalf("OpenShell(%+v): %v", o, err)
	}
	r.Cleanup(func() { sh.Close() })
	return sh
}

// line starts a line under ctx and gathers what c's outputs leave nil.
func (r *rig) line(ctx context.Context, sh sandbox.Shell, text string, c sandbox.Command) running {
	r.Helper()
	out, err := gathered(c, func(c sandbox.Command) (sandbox.Process, error) { return sh.Run(ctx, text, c) })
	if err != nil {
		r.Fatalf("Run(%.200q): %v", text, err)
	}
	return out
}

// runLine runs a line to its end.
func (r *rig) runLine(sh sandbox.Shell, text string) (sandbox.Exit, string, string) {
	r.Helper()
	p := r.line(r.ctx, sh, text, sandbox.Command{})
	exit := r.exit(p)
	return exit, p.stdout.String(), p.stderr.String()
}

// says holds that a line ends with 0 in the shell that was there, and writes
// exactly want.
func (r *rig) says(sh sandbox.Shell, text, want string) {
	r.Helper()
	exit, stdout, stderr := r.runLine(sh, text)
	if exit.Code != 0 || exit.Restarted || stdout != want || stderr != "" {
		r.Errorf("%.200q: status %d, restarted %v, stdout %.200q, stderr %.200q; want %.200q",
			text, exit.Code, exit.Restarted, stdout, stderr, want)
	}
}

// sleeper is the text that leaves or runs a process with the marker.
func sleeper(marker int) string { return "sleep " + strconv.Itoa(marker) }

// until is the text that waits for a file inside.
func until(file string) string { return "while ! [ -e " + file + " ]; do sleep 0.02; done" }
