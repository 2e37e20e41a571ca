package config

import (
	"maps"
	"path"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// cacheEnv returns the variables by which a package manager finds its cache in
// the folder dir.
func cacheEnv(tool, dir string) map[string]string {
	switch tool {
	case "npm":
		return map[string]string{"npm_config_cache": dir}
	case "pip":
		return map[string]string{"PIP_CACHE_DIR": dir}
	case "go":
		return map[string]string{"GOMODCACHE": path.Join(dir, "mod"), "GOCACHE": path.Join(dir, "build")}
	case "cargo":
		return map[string]string{"CARGO_HOME": dir}
	case "maven":
		return map[string]string{"MAVEN_OPTS": "-Dmaven.repo.local=" + dir}
	}
	return nil
}

// fillCache sets the variables of the caches that the sandbox has. What settings
// or a flag set stays as it is.
func fillCache(s *sandbox.Spec, r Resolved, f Facts) error {
	if f.CacheDir == "" {
		return nil
	}
	env := map[string]string{}
	for _, tool := range r.Cache.Tools {
		maps.Copy(env, cacheEnv(tool, path.Join(sandbox.CacheDir, tool)))
	}
	maps.Copy(env, s.Env)
	s.Env = env
	return nil
}

// Poolable reports whether a sandbox of r may be one that was made ready before
// its session was known: a private view, and caches that belong to a workspace,
// are of one session.
func (r Resolved) Poolable() bool { return !r.Private() && len(r.Cache.Tools) == 0 }
