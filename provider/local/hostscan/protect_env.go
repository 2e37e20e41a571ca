package hostscan

import (
	"fmt"
	"strings"
)

// GitEnv returns env for a run of git on the host in a folder that code in a
// sandbox may have written: no program of the repository's is started by a
// look at it, no hook runs, and a bare repository that lies in the folder is
// not taken for one (git 2.38 and later). Variables of git in env are left
// out, since they could say otherwise.
//
// That holds for commands that look, such as status and log; those that show
// changes need --no-ext-diff and --no-textconv besides, which have no setting.
// A command that checks files out or adds them runs the filters that the
// repository configures, and must not be used there.
func gitEnv(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "GIT_") {
			out = append(out, e)
		}
	}
	for i, c := range gitConfig {
		out = append(out, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, c[1]))
	}
	return append(out, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(gitConfig)),
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_NO_REPLACE_OBJECTS=1")
}

// GitArgs returns the same settings as arguments, to be put before the
// command.
func gitArgs() []string {
	out := []string{"--no-pager", "--no-optional-locks"}
	for _, c := range gitConfig {
		out = append(out, "-c", c[0]+"="+c[1])
	}
	return out
}

// gitConfig is what a repository's own configuration must not decide.
var gitConfig = [][2]string{
	{"core.fsmonitor", "false"}, {"core.hooksPath", "/dev/null"}, {"safe.bareRepository", "explicit"},
	{"core.pager", "cat"}, {"core.editor", "false"}, {"core.sshCommand", "false"}, {"core.askPass", ""},
	{"credential.helper", ""}, {"protocol.allow", "never"}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
	{"submodule.recurse", "false"}, {"log.showSignature", "false"},
}
