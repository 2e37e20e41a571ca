package orchestrator

import (
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
)

// home returns the canonical home folder of the user that runs us; a user
// without one gets the empty path.
func home() (string, error) {
	dir, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(dir) {
		return "", nil
	}
	return hostpath.Canonical(dir)
}

// StateFolder returns the absolute path of the state folder that dir, which may
// be empty, names as in Options.
func StateFolder(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = statedir.Default(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", statedir.Unavailable("open state folder", dir, err)
	}
	return abs, nil
}

// OpenState opens the state folder that dir, which may be empty, names as in
// Options, and nothing else of a Orchestrator.
func OpenState(dir string) (*statedir.Dir, error) {
	path, err := StateFolder(dir)
	if err != nil {
		return nil, err
	}
	return statedir.Open(path)
}

// Inside returns what policies have to know of the place where commands of res
// run on this machine.
func Inside(res config.Resolved) (config.Inside, error) {
	dir, err := home()
	return manager.Host{Home: dir, Env: environment(os.Environ())}.Inside(res), err
}
