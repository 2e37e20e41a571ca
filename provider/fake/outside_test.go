package fake_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// inside runs a text in the fake's shell and returns what it wrote.
func inside(t *testing.T, sb sandbox.Sandbox, text string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	p, err := sb.Start(t.Context(), sandbox.Command{
		Args: []string{"sh", "-c", text}, Dir: "/tmp", Env: map[string]string{"HOME": "/workspace"}, Stdout: &out, Stderr: &errOut,
	})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return exit.Code, out.String(), errOut.String()
}

// TestShellSeesItsWorld holds what a script finds: the fake's files, processes
// and environment.
func TestShellSeesItsWorld(t *testing.T) {
	t.Setenv("OF_THE_HOST", "leaked")
	t.Setenv("TMPDIR", t.TempDir())
	_, sb := box(t, fake.Options{})
	const passwd = "root:x:0:0::/:/bin/sh\nsandbox:x:1000:1000::/home/sandbox:/bin/sh\n"
	for text, want := range map[string]string{
		`cat /etc/passwd`:                         passwd,
		`cat </etc/passwd`:                        passwd,
		`echo "$(</etc/passwd)$(cat)"`:            passwd,
		"cat <<E\n~root $HOME\nE":                 "~root /workspace\n",
		`ls /`:                                    "bin\ndev\netc\nhome\ntmp\nusr\nvar\nworkspace\n",
		`cd /; echo *; pwd`:                       "bin dev etc home tmp usr var workspace\n/\n",
		`cd; pwd; pwd -P; echo $HOME ~ $PWD ~/x`:  "/workspace\n/workspace\n/workspace /workspace /workspace /workspace/x\n",
		`unset HOME; echo "[$HOME]"; cd; echo $?`: "[]\n1\n",
		`echo "[$OF_THE_HOST$TMPDIR$UID$EUID$GID$USER$HOSTNAME]"; env`:                                         "[]\nHOME=/workspace\nPATH=/usr/local/bin:/usr/bin:/bin\n",
		`echo ~root ~nobody; (echo ~root); x=~root; echo $x ${y:-~root}`:                                       "~root ~nobody\n~root\n~root ~root\n",
		`echo x >/tmp/sh-interp-1; cat /tmp/sh-interp-1`:                                                       "x\n",
		`[ -e /proc ] || [ -e /root ] || echo neither`:                                                         "neither\n",
		`command -v go dash ls; type python3 >/dev/null; echo $?`:                                              "/usr/bin/ls\n127\n",
		`test -O /etc/passwd && [[ -G /etc/passwd ]] && echo same`:                                             "same\n",
		`echo $PPID; (echo $PPID); sh -c 'echo $PPID'`:                                                         "1\n1\n1\n",
		`[ $$ -lt 100 ] && [ $(echo $$) = $$ ] && eval '[ $$ -lt 100 ]' && sh -c '[ $$ -lt 100 ]' && echo few`: "few\n",
	} {
		if status, got, complaint := inside(t, sb, text); got != want || status > 1 {
			t.Errorf("%s: status %d, %q, %s; want %q", text, status, got, complaint, want)
		}
	}
}

// TestShellDoesNotReachTheMachine names a folder of the machine in every way
// there is, and looks whether something was found or left there.
func TestShellDoesNotReachTheMachine(t *testing.T) {
	dir := t.TempDir()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for name, mode := range map[string]os.FileMode{"secret": 0o644, "tool": 0o755, "sh-interp-1": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("echo secret\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	_, sb := box(t, fake.Options{})
	for _, text := range []string{
		`cat D/secret`, `cat <D/secret`, `echo "$(<D/secret)"; false`, `. D/secret`, `source D/secret`, `cd D && . ./secret`, `eval . D/secret`,
		`command . D/secret`, `builtin source D/secret`, `sh D/secret`, `D/tool`, `PATH=D; tool`, `PATH=D; command -v tool`, `PATH=D; type tool`,
		`PATH=D; type -p tool`, `PATH=D; command -V tool`, `PATH=D; . tool`, `PATH=D; hash tool; exec tool`, `command D/tool`, `exec D/tool`,
		`[ -e D/secret ]`, `[[ -e D/secret ]]`, `[ -d D ]`, `test -O D`, `[ D/secret -ef D/secret ]`, `cd D`, `pushd D`, `cd D/..; cd "${OLDPWD}"; cd D`,
		`set -- D/*; [ -e "$1" ]`, `echo D/s* | cat >/tmp/f; [ "$(cat /tmp/f)" != "D/s*" ]`, `echo x >D/made`, `echo x >>D/secret`, `: >D/secret`,
		`exec >D/made`, `exec <D/secret`, `while read -r x; do echo $x; done <D/secret`, `read -r x <D/secret`, `mapfile x <D/secret`,
		`(cat D/secret)`, `echo $(cat D/secret); false`, `cat D/secret | cat; [ -e D ]`, `cat D/secret & wait $!`, `f() { cat D/secret; }; f`,
		`trap 'cat D/secret' EXIT; false`, `cat <(echo D) ; false`, `echo x > >(cat >D/made); false`, `mkdir D/made`, `ln -s D /tmp/l; cat /tmp/l/secret`,
		`TMPDIR=D sh -c 'cat D/sh-interp-1; echo x >D/sh-interp-2'`, `TMPDIR=D; cat D/sh-interp-1`, `TMPDIR=D; echo x >D/sh-interp-2`,
		`x='a[$(cat <(cat D/secret))]'; unset "$x"`, `alias a='cat D/secret'` + "\na", `kill -0 P`, `kill -9 P`, `kill -0 1`, `coproc cat D/secret`,
	} {
		text = strings.NewReplacer("D", dir, "P", "$((PPID))").Replace(text)
		status, stdout, _ := inside(t, sb, text)
		if strings.Contains(stdout, "secret\n") || status == 0 {
			t.Errorf("%s: status %d, %q", text, status, stdout)
		}
	}
	for folder, want := range map[string]string{dir: "secret sh-interp-1 tool", temporary: ""} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
			if b, err := os.ReadFile(filepath.Join(folder, e.Name())); err != nil || string(b) != "echo secret\n" {
				t.Errorf("%s holds %q, %v", e.Name(), b, err)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("in the machine's folder are %q, want %q", got, want)
		}
	}
}
