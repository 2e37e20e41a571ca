package config_test

import (
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// TestFollowing holds that what follows from settings is worked out once for
// each that come, an error as well.
func TestFollowing(t *testing.T) {
	var now *config.Settings
	asked, failed := 0, errors.New("failed")
	value := config.Following(func() *config.Settings { return now }, func(s *config.Settings) (int, error) {
		asked++
		if s != nil && s.Dir == "bad" {
			return 0, failed
		}
		return asked, nil
	})
	for i, s := range []*config.Settings{nil, {Dir: "bad"}, {}} {
		now = s
		for range 2 {
			got, err := value()
			if bad := i == 1; asked != i+1 || !bad && (got != i+1 || err != nil) || bad && err != failed {
				t.Errorf("%d: %d, %v, asked %d times", i, got, err, asked)
			}
		}
	}
}
