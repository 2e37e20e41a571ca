package cli

import (
	"strings"
	"testing"
)

func TestArrange(t *testing.T) {
	find := lookup((&app{globals: newGlobals()}).cli())
	tests := []struct{ args, want string }{
		{"fs rm old -r", "fs rm -r -- old"},
		{"fs read x --offset 5 --limit=3", "fs read --offset 5 --limit=3 -- x"},
		{"--session s fs ls x -lo json", "--session s fs ls -lo json -- x"},
		{"fs --session s ls x -l", "fs --session s ls -l -- x"},
		{"fs rm -- -r x", "fs rm -- -r x"},
		{"fs rm x -- -r --", "fs rm -- x -r --"},
		{"cp a sandbox:b -q --session s", "cp -q --session s -- a sandbox:b"},
		{"cp - sandbox:b -q", "cp -q -- - sandbox:b"},
		{"cp a --session", "cp --session -- a"},
		{"token revoke 0a -o json", "token revoke -o json -- 0a"},
		{"agent claude -- -p x -- y", "agent -- claude -p x -- y"},
		{"agent claude --workspace d -o json -- -o text", "agent --workspace d -o json -- claude -o text"},
		{"token", "token"},
		{"fs", "fs"},
		{"fs nope -x", "fs nope -x"},
		{"run ls -l", "run ls -l"},
		{"run -- fs rm x -r", "run -- fs rm x -r"},
		{"--session fs run x -r", "--session fs run x -r"},
		{"help fs rm", "fs rm --help"},
		{"-o json help fs", "-o json fs --help"},
		{"help", "help"},
		{"help -h", "help -h"},
		{"run help x", "run help x"},
		{"", ""},
		{"--session", "--session"},
	}
	for _, tt := range tests {
		got := arrange(append([]string{"sandbox"}, strings.Fields(tt.args)...), find)
		if s := strings.Join(got[1:], " "); s != tt.want {
			t.Errorf("%q became %q, want %q", tt.args, s, tt.want)
		}
	}
}
