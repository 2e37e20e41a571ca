// Providers with our guest inside share the code here: the settings of a Spec
// that hold for every command, and the lines that run at each start.

package provider

import (
	"maps"

	"github.com/bulkhead-dev/sandbox"
)

// Command lays c over what s says for every command. A bare one gets nothing of
// the environment.
func Command(c sandbox.Command, s sandbox.Spec) sandbox.Command {
	env := map[string]string{}
	if !c.Bare {
		maps.Copy(env, s.Env)
	}
	maps.Copy(env, c.Env)
	c.Env = env
	c.Dir = s.DirOf(c.Dir)
	c.Limits = stricter(c.Limits, s.Limits)
	return c
}

// Shell lays o over what s says for every command.
func Shell(o sandbox.ShellOptions, s sandbox.Spec) (sandbox.ShellOptions, sandbox.Limits) {
	c := Command(sandbox.Command{Env: o.Env, Dir: o.Dir}, s)
	return sandbox.ShellOptions{ID: o.ID, Env: c.Env, Dir: c.Dir, From: o.From}, c.Limits
}

// stricter takes the stricter of two bounds, field by field.
func stricter(a, b sandbox.Limits) sandbox.Limits {
	pick := func(x, y int64) int64 {
		if x == 0 || (y != 0 && y < x) {
			return y
		}
		return x
	}
	a.Memory = pick(a.Memory, b.Memory)
	a.CPUSeconds = pick(a.CPUSeconds, b.CPUSeconds)
	a.FileSize = pick(a.FileSize, b.FileSize)
	a.OpenFiles = pick(a.OpenFiles, b.OpenFiles)
	a.Processes = pick(a.Processes, b.Processes)
	return a
}
