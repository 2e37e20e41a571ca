package providertest

import (
	"maps"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// hostVariable is set in the environment of the test and must not be seen inside.
const hostVariable = "PROVIDERTEST_OF_THE_HOST"

// environmentChecks hold what a command finds around it.
func environmentChecks() []Check {
	return []Check{
		{Name: "environment of the spec and over it the command's", run: environmentLayers},
		{Name: "nothing of the host's environment leaks in", run: environmentLeak, alone: true},
		{Name: "a bare command has its own environment and nothing else", run: environmentBare},
		{Name: "commands start in workdir or their own dir", run: directories},
		{Name: "a missing dir is an error", run: missingDir},
		{Name: "limits of the handle bound the command's", run: limitLayers},
	}
}

// environment runs env and returns its lines as a map.
func (r *rig) environment(sb sandbox.Sandbox, over map[string]string) map[string]string {
	r.Helper()
	c := r.h.Programs.Env()
	c.Env = over
	return variables(r.output(sb, c))
}

// variables reads what env prints.
func variables(printed string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(printed) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		vars[k] = v
	}
	return vars
}

func environmentLayers(r *rig) {
	s := r.spec("a")
	s.Env = map[string]string{"FROM_SPEC": "spec", "BOTH": "spec", "ODD": `a=b "c" $d 日本`}
	r.create(s)
	sb := r.open(s)
	vars := r.environment(sb, map[string]string{"BOTH": "command", "FROM_COMMAND": "command", "EMPTY": ""})
	for k, want := range map[string]string{
		"FROM_SPEC": "spec", "BOTH": "command", "FROM_COMMAND": "command", "EMPTY": "", "ODD": `a=b "c" $d 日本`,
	} {
		if got, ok := vars[k]; !ok || got != want {
			r.Errorf("%s = %q (set: %v), want %q", k, got, ok, want)
		}
	}
	if vars["PATH"] == "" {
		r.Error("there is no PATH")
	}
	if again := r.environment(sb, nil); again["BOTH"] != "spec" || again["FROM_COMMAND"] != "" {
		r.Errorf("the command before left its variables: %v", again)
	}

	// A handle brings its own environment: Env applies to commands started
	// through it.
	s.Env = map[string]string{"FROM_SPEC": "second handle"}
	if got := r.environment(r.open(s), nil)["FROM_SPEC"]; got != "second handle" {
		r.Errorf("through a second handle FROM_SPEC = %q", got)
	}
	if got := r.environment(sb, nil)["FROM_SPEC"]; got != "spec" {
		r.Errorf("a second handle changed the first one's FROM_SPEC to %q", got)
	}
}

func environmentLeak(r *rig) {
	r.Setenv(hostVariable, "leaked")
	r.Setenv("PATH", "/host/only/"+hostVariable)
	_, sb := r.box("a")
	for k, v := range r.environment(sb, nil) {
		if strings.Contains(k, hostVariable) || strings.Contains(v, hostVariable) {
			r.Errorf("%s=%s came in from the host", k, v)
		}
	}
}

func environmentBare(r *rig) {
	s := r.spec("a")
	s.Env = map[string]string{"FROM_SPEC": "spec", "BOTH": "spec"}
	r.create(s)
	sb := r.open(s)
	for _, own := range []map[string]string{
		{"BOTH": "command", "EMPTY": "", "PATH": "/usr/bin:/bin"},
		{"WITHOUT": "a path"},
	} {
		c := r.h.Programs.Env()
		c.Env, c.Bare = own, true
		if got := variables(r.output(sb, c)); !maps.Equal(got, own) {
			r.Errorf("a bare command with %v has %v", own, got)
		}
	}
	if got := r.environment(sb, nil)["FROM_SPEC"]; got != "spec" {
		r.Errorf("after it one that is not bare has FROM_SPEC = %q", got)
	}
}

func directories(r *rig) {
	s, sb := r.box("a")
	for dir, want := range map[string]string{"": s.Workdir, ".": s.Workdir, "..": path.Dir(s.Workdir), "/": "/", "/tmp": "/tmp", "/etc": "/etc"} {
		c := r.h.Programs.Pwd()
		c.Dir = dir
		if got := r.output(sb, c); got != want {
			r.Errorf("with Dir %q the command starts in %q, want %q", dir, got, want)
		}
	}
	s.Workdir = "/tmp"
	if got := r.output(r.open(s), r.h.Programs.Pwd()); got != "/tmp" {
		r.Errorf("through a handle with Workdir /tmp the command starts in %q", got)
	}
}

func missingDir(r *rig) {
	_, sb := r.box("a")
	for _, dir := range []string{"/no/such/dir", "/etc/passwd"} {
		c := r.h.Programs.True()
		c.Dir = dir
		_, err := sb.Start(r.ctx, c)
		r.wantCode("Start in "+dir, err, sandbox.CodeExecution, sandbox.CodeValidation)
		if err != nil && !strings.Contains(err.Error(), "dir") {
			r.Errorf("Start in %s: %q does not say that the directory is at fault", dir, err)
		}
	}
	r.works(sb)
}

func limitLayers(r *rig) {
	s := r.spec("a")
	r.create(s)
	s.Limits.OpenFiles = 64
	sb := r.open(s)
	if got := r.output(sb, r.h.Programs.OpenFiles()); got != "64" {
		r.Errorf("the handle's limit of 64 open files came through as %s", got)
	}
	c := r.h.Programs.OpenFiles()
	c.Limits.OpenFiles = 32
	if got := r.output(sb, c); got != "32" {
		r.Errorf("the command's limit of 32 open files came through as %s", got)
	}
	c.Limits.OpenFiles = 128
	if got := r.output(sb, c); got != "64" {
		r.Errorf("a command that asks for 128 open files got %s, its sandbox allows 64", got)
	}
}
