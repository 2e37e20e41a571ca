package command

import (
	"fmt"
	"strings"
	"testing"
)

// show writes the parsed line as text: commands with their wrappers, <…> for
// an unknown word, … where words follow, ?? when there is an Unknown.
func show(l *line) string {
	var b strings.Builder
	for i, c := range l.Commands {
		if i > 0 {
			b.WriteString(" ; ")
		}
		for _, w := range c.Wrappers {
			b.WriteString(w + ">")
		}
		for j, w := range c.Words {
			if j > 0 {
				b.WriteByte(' ')
			}
			if w.Static {
				b.WriteString(w.Value)
			} else {
				fmt.Fprintf(&b, "<%s>", w.Prefix)
			}
		}
		if c.Open {
			b.WriteString(" …")
		}
	}
	if len(l.Unknowns) > 0 {
		b.WriteString(" ??")
	}
	return b.String()
}

// cases are lines and what they are read as; "refused" is for those that are not.
var cases = []struct{ text, want string }{
	{"ls -la", "ls -la"},
	{"", ""},
	{"# nothing", ""},
	{"ls; rm x", "ls ; rm x"},
	{"a && b || c | d & e", "a ; b ; c ; d ; e"},
	{"echo $(id) `id`", "echo <> <> ; id ; id"},
	{"cat <(id)", "cat </dev/fd/> ; id"},
	{"cat <<E\n$(id)\nE", "cat ; id"},
	{"cat <<'E'\n$(id)\nE", "cat"},
	{"echo 'rm -rf /'", "echo rm -rf /"},
	{"t'o'uch F", "touch F"},
	{`to\uch F`, "touch F"},
	{`$'\x72m' F`, "rm F"},
	{`$'\c?'`, "<> ??"},
	{"rm${IFS}-rf${IFS}/", "<rm> ??"},
	{"{rm,-rf,/}", "rm -rf /"},
	{"{a..z} x", "<> x ??"},
	{"rm {1..9999999}", "rm <>"},
	{"x=rm; $x a", "rm a"},
	{"x=rm; x=ls; $x a", "<> a ??"},
	{"false && x=rm; $x a", "false ; <> a ??"},
	{"rm ~/x $HOME/y \"$HOME\"", "rm /home/u/x /home/u/y /home/u"},
	{"HOME=/; rm ~/x", "rm <>"},
	{"rm ~root/x", "rm <>"},
	{"$x a", "<> a ??"},
	{"r? a", "r? a ??"},
	{"env -i A=1 timeout -k 1 5 nice -n 5 rm x", "env>timeout>nice>rm x"},
	{"env --frob rm x", "env --frob rm x ??"},
	{"env \"$x\" rm", "env <> rm ??"},
	{"env -S 'A=1 rm' x", "env>rm x"},
	{"/usr/bin/env rm x", "env>rm x"},
	{"./env rm x", "./env rm x ??"},
	{"command -v rm", "command -v rm"},
	{"exec -a ls rm x", "exec>rm x"},
	{"time -p rm x", "time>rm x"},
	{"sudo -u root A=1 rm x", "sudo>rm x"},
	{"sudo -i", "sudo -i ??"},
	{"doas -u root rm x", "doas>rm x"},
	{"su -c 'rm x' root", "su>sh>rm x"},
	{"su", "su ??"},
	{"runuser -u joe -- rm x", "runuser>rm x"},
	{"chroot /mnt rm x", "chroot>rm x"},
	{"unshare -rm rm x", "unshare>rm x"},
	{"nsenter -t 1 -m rm x", "nsenter>rm x"},
	{"setpriv --no-new-privs rm x", "setpriv>rm x"},
	{"numactl -N 0 rm x", "numactl>rm x"},
	{"chrt -i 0 rm x", "chrt>rm x"},
	{"flock -n l rm x", "flock>rm x"},
	{"flock l -c 'rm x'", "flock>sh>rm x"},
	{"script -qc 'rm x' /dev/null", "script>sh>rm x"},
	{"watch -n 1 rm x", "watch>sh>rm x"},
	{"watch -x rm x", "watch>rm x"},
	{"parallel rm ::: a b", "parallel>sh>rm …"},
	{"parallel ::: rm", "parallel ::: rm ??"},
	{"xargs", "xargs>echo …"},
	{"xargs -n 1 rm -f", "xargs>rm -f …"},
	{"xargs env", "xargs>env … ??"},
	{"xargs -I{} rm {}", "xargs>rm <>"},
	{"xargs -I{} sh -c 'rm {}'", "xargs>sh -c <rm > ??"},
	{"find . -name '*.go' -exec grep foo {} +", "find . -name *.go -exec grep foo {} + ; find>grep foo <>"},
	{"find . -name -exec -o -exec rm {} ';'", "find . -name -exec -o -exec rm {} ; ; find>rm <>"},
	{"find . -frob", "find . -frob ??"},
	{"find \"$x\"", "find <> ??"},
	{"bash -lc 'cd x && rm -rf *'", "bash>cd x ; bash>rm -rf *"},
	{"bash -xec 'rm \"$1\" $0' a b", "bash>rm b a"},
	{"bash -c \"$x\"", "bash -c <> ??"},
	{"bash -ic ls", "bash -ic ls ??"},
	{"bash x.sh a", "bash x.sh a"},
	{"bash", "bash ??"},
	{"echo rm | sh", "echo rm ; sh ??"},
	{"bash <<< 'rm x'", "bash>rm x"},
	{"bash <<'E'\nrm $(id)\nE", "bash>id ; bash>rm <>"},
	{"sh -c '[[ a && rm ]]'", "sh -c [[ a && rm ]] ??"},
	{"zsh -c 'rm x'", "zsh>rm x"},
	{"zsh -c 'rm =x*(e:rm:)'", "zsh -c rm =x*(e:rm:) ??"},
	{"busybox timeout 5 rm x", "busybox>timeout>rm x"},
	{"eval 'ls; rm' x", "eval>ls ; eval>rm x"},
	{"eval \"$x\"", "eval <> ??"},
	{"trap 'rm x' EXIT", "trap rm x EXIT ; trap>rm x"},
	{"ls(){ rm x; }; ls", "rm x ; ls ??"},
	{"f(){ rm x; }; g", "rm x ; g"},
	{"alias ls=rm", "alias ls=rm ??"},
	{"export PATH=/x", "export PATH=/x ??"},
	{"A=1 ls", "ls"},
	{"PATH=/x ls", "ls ??"},
	{"LD_PRELOAD=x ls", "ls ??"},
	{"BASH_ENV=x bash -c ls", "bash>ls ??"},
	{"hash -p /bin/rm ls", "hash -p /bin/rm ls ??"},
	{". x", ". x ??"},
	{"set -euo pipefail", "set -euo pipefail"},
	{"set -k", "set -k ??"},
	{"test -v 'a[$(id)]'", "test -v a[$(id)] ??"},
	{"[ -f x ] && [ $# -gt 0 ]", "[ -f x ] ; [ <> -gt 0 ]"},
	{"[ $x = y ]", "[ <> = y ] ??"},
	{"[ \"$x\" = y ]", "[ <> = y ]"},
	{"[[ -v a[x] ]]", " ??"},
	{"[[ $x == y* ]]", ""},
	{"[[ $x -eq 1 ]]", " ??"},
	{"((x))", " ??"},
	{"for ((i=0;i<9;i++)); do echo $((i+1)); done", "echo <>"},
	{"i=1; i=$x; echo $((i))", "echo <> ??"},
	{"echo ${a[x]}", "echo <> ??"},
	{"echo ${!x} ${x@P}", "echo <> <> ??"},
	{"echo ${x:-$(id)}", "echo <> ; id"},
	{"printf '%s\\n' \"$x\"", "printf %s\\n <>"},
	{"printf -v x y", "printf -v x y"},
	{"read -r x", "read -r x"},
	{"mapfile -C rm x", "mapfile -C rm x ??"},
	{"echo hi >&2", "echo hi"},
	{"echo hi >&$x", "echo hi ??"},
	{"coproc rm x", "rm x"},
	{"if a; then b; elif c; then d; else e; fi", "a ; b ; c ; d ; e"},
	{"case $(a) in $(b)) c;; esac", "a ; b ; c"},
	{"ssh host rm x", "ssh host rm x"},
	{"echo @(a|b)", "refused"},
	{"!(ls)", "refused"},
	{"echo \"${x:-'}\"; rm x; echo \"'}\"", "refused"},
	{"echo a\u200bb", "refused"},
	{"echo a\rb", "refused"},
	{"echo a\u00a0b", "refused"},
	{"echo \u202eb", "refused"},
	{"echo \xff", "refused"},
	{"echo '", "refused"},
	{"cat <<E\nx", "refused"},
	{"echo \\", "refused"},
	{"ls # x\\\nrm", "refused"},
	{"cat <<'E'\n#define x \\\n y\nE", "cat"},
	{"cat <<E\n#define x \\\n $y \\\n#z\nE", "cat"},
	{"cat <<E\n$(a #x\\\n b)\nE", "refused"},
	{"echo \"#x\\\n$y#\\\n\"", "echo <#x>"},
	{"[[ $x =~ ^a?(b|c)*[0-9]+$ ]]", ""},
	{"rm x & wait $!", "rm x ; wait <>"},
	{"bash -c - 'rm x'", "bash>rm x"},
	{"coproc bash -c 'rm x'", "bash>rm x"},
	{"coproc N { rm x; }", "rm x"},
	{"export V=(a)V=(b)", "refused"},
	{"V=(a b); echo ${V[@]}", "echo <>"},
	{"cat <<-E\na\\\n\tE\nrm\nE", "refused"},
	{"cat <<-'E'\na\\\n\tE\nrm", "cat ; rm"},
	{"time -- rm", "refused"},
	{"f() rm", "refused"},
	{"\u2713 \u26a0\ufe0f", "\u2713 \u26a0\ufe0f"},
}

func TestParse(t *testing.T) {
	for _, c := range cases {
		l, refused := parseLine(c.text, lineStart{Dir: "/w", Home: "/home/u"})
		got := "refused"
		if refused == nil {
			got = show(l)
		}
		if got != c.want {
			t.Errorf("%q is read as\n\t%s, want\n\t%s", c.text, got, c.want)
			if refused != nil {
				t.Logf("%s", refused.Message)
			} else {
				t.Logf("%v", l.Unknowns)
			}
		}
	}
}

// TestDirectory holds where the last command of a line runs; ! says that it
// may be elsewhere.
func TestDirectory(t *testing.T) {
	for text, want := range map[string]string{
		"rm": "/w", "cd /a; rm": "/a!", "cd /a && rm": "/a", "cd a && cd b && rm": "/w/a/b", "cd .. && rm": "/",
		"cd /a || exit; rm": "/a", "cd /a || exit 1\ncd b || exit 1\nrm": "/a/b", "cd /a || true; rm": "/a!", "cd /a || rm": "/w",
		"(cd /a); rm": "/w", "(cd /a && rm)": "/a", "cd /a & rm": "/w", "cd /a | rm": "/w",
		"cd && rm": "/home/u", "cd ~/x && rm": "/home/u/x", "cd - && rm": "", "cd /a && cd - && rm": "/w", "cd $x && rm": "",
		"CDPATH=/x; cd a && rm": "", "CDPATH=/x; cd ./a && rm": "/w/a",
		"if cd /a; then rm; fi": "/a", "if cd /a; then :; else rm; fi": "/w", "if x; then cd /a; fi; rm": "!",
		"while x; do cd a; rm; done": "!", "for i in 1; do rm; done": "/w", "f() { rm; }": "!",
		"env -C b rm": "/w/b", "sudo -D /b rm": "/b", "chroot / rm": "", "pushd /a && rm": "/a", "pushd /a && popd && rm": "/w",
		"bash -c 'cd a && rm'": "/w/a", "bash -c 'cd a'; rm": "/w", "eval 'cd a' && rm": "/w/a", "{ cd a && rm; }": "/w/a", "! cd a && rm": "/w/a!",
		"command cd a && rm": "/w/a", "env cd a && rm": "/w", "cd a; cd /b && rm": "/b", "find . -execdir rm ';'": "",
	} {
		l, refused := parseLine(text, lineStart{Dir: "/w", Home: "/home/u"})
		if refused != nil {
			t.Errorf("%q: %s", text, refused.Message)
			continue
		}
		last := l.Commands[len(l.Commands)-1]
		got := last.Dir
		if last.Unsure {
			got += "!"
		}
		if got != want {
			t.Errorf("%q: rm runs in %q, want %q", text, got, want)
		}
	}
}
