package main

import (
	"os"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// readSettings reads the settings file; path is canonical and empty when
// there is none and the defaults hold.
func readSettings(named string) (s *config.Settings, path string, err error) {
	f, err := config.Load(named)
	if err != nil {
		return nil, "", err
	}
	given := config.FromEnvironment(map[string]string{config.CAVariable: os.Getenv(config.CAVariable)})
	if f.Path == "" {
		if given != nil {
			s = &config.Settings{Environment: given}
		}
		return s, "", nil
	}
	if s, err = config.Parse(f.Path, f.Data); err == nil {
		s.Environment = given
	}
	return s, f.Path, err
}

// Settings implements cli.Backend.
func (backend) Settings(o cli.Options) (*config.Settings, error) {
	s, _, err := readSettings(o.ConfigFile)
	return s, err
}

// Inside implements cli.Backend.
func (backend) Inside(res config.Resolved) (config.Inside, error) {
	return orchestrator.Inside(res)
}
