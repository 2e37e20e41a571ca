package manager

import (
	"os/exec"
	"strings"
	"testing"
)

// TestShellText holds that a line too long for one argument of a program runs
// as a shorter one does, in bash and in sh, and leaves nothing of it in the
// shell's parameters.
func TestShellText(t *testing.T) {
	data := strings.Repeat("it's \"a\" $line \\ of `text` \u6f22\n", 15_000) // no argument may be as long
	text := "# '\"\ncat <<'EOF' | tail -n 1\n" + data + "EOF\necho \"$#$1\"; exit 7"
	if len(text) < 3*maxArgument {
		t.Fatalf("%d bytes prove nothing", len(text))
	}
	for _, shell := range []string{"sh", "bash"} {
		args := append([]string{"-c", "--"}, shellText(text)...)
		if shell == "sh" {
			args = append([]string{"-c", pickShell, "sh"}, args...)
		}
		out, err := exec.Command(shell, args...).Output()
		e, ok := err.(*exec.ExitError)
		if !ok || e.ExitCode() != 7 || string(out) != "it's \"a\" $line \\ of `text` \u6f22\n0\n" {
			t.Errorf("%s: %v, %.200q", shell, err, out)
		}
	}
	if got := shellText("echo a"); len(got) != 1 || got[0] != "echo a" {
		t.Errorf("a short line became %q", got)
	}
}
