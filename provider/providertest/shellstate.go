package providertest

import "github.com/bulkhead-dev/sandbox"

// shellStateChecks hold what a shell keeps from line to line.
func shellStateChecks() []Check {
	return []Check{
		{Name: "a shell keeps its directory", run: shellKeeps("cd /tmp", "pwd", "/tmp\n")},
		{Name: "a shell keeps variables", run: shellKeeps(`x='a  "b" $c'`, `printf '%s|' "$x"`, `a  "b" $c|`)},
		{Name: "a shell keeps exported variables", run: shellKeeps("export x=1", `sh -c 'echo "$x"'`, "1\n")},
		{Name: "a shell keeps functions", run: shellKeeps(`f() { echo "f $1"; }`, "f x", "f x\n")},
		{Name: "a shell keeps aliases", run: shellKeeps("alias hi='echo hello'", "hi there", "hello there\n")},
		{Name: "a shell keeps options", run: shellKeeps("set -f", "echo /*", "/*\n")},
		{Name: "shells of one sandbox are apart", run: shellsApart},
		{Name: "a line may be many lines", run: shellManyLines},
		{Name: "a shell that is started again has what it kept", run: shellKeepsOver},
	}
}

func shellKeeps(set, show, want string) func(*rig) {
	return func(r *rig) {
		_, sh := r.shellBox()
		r.says(sh, set, "")
		r.says(sh, show, want)
		r.says(sh, ":", "")
		r.says(sh, show, want)
	}
}

func shellsApart(r *rig) {
	sb, one := r.shellBox()
	two := r.shell(sb, sandbox.ShellOptions{})
	r.says(one, "cd /tmp; x=1; f() { echo f; }; alias hi=echo", "")
	r.says(two, `echo "${x-unset}"; [ "$PWD" = /tmp ] || echo elsewhere`, "unset\nelsewhere\n")
	if exit, _, _ := r.runLine(two, "f"); exit.Code != 127 {
		r.Errorf("a function of another shell: %+v, want status 127", exit)
	}
	if err := one.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	r.says(two, "echo alive", "alive\n")
}

func shellManyLines(r *rig) {
	_, sh := r.shellBox()
	r.says(sh, "x=5\nif [ $x = 5 ]\nthen\n\techo five\nfi\n# a comment\ncat <<E\nhere $x\nE\necho 'two\nlines'\nfor i in 1 2\ndo echo $i; done",
		"five\nhere 5\ntwo\nlines\n1\n2\n")
	r.says(sh, "echo one; echo two &&\\\necho three", "one\ntwo\nthree\n")
	r.says(sh, "", "")
	r.says(sh, "\n\n# nothing\n", "")
}

// shellKeepsOver ends the shell and looks for its state in the next one.
func shellKeepsOver(r *rig) {
	_, sh := r.shellBox()
	r.says(sh, `cd /tmp; x='a b'; export y=2; alias hi='echo hello'; set -f; f() { echo "f $1"; }`, "")
	for range 2 { // what was restored is kept once more
		if exit, _, _ := r.runLine(sh, "exit 3"); !exit.Restarted {
			r.Errorf("exit 3: %+v", exit)
		}
		r.says(sh, `pwd; echo "$x" /*; sh -c 'echo "$y"'`, "/tmp\na b /*\n2\n")
		r.says(sh, "hi there", "hello there\n")
		if sh.Program() == "bash" {
			r.says(sh, "f x", "f x\n")
		}
	}
}
