package launch

import (
	"testing"
)

func TestReleases(t *testing.T) {
	for release, want := range map[string][2]bool{ // in Windows, and the first kind
		"4.4.0-19041-Microsoft":             {true, true},
		"5.15.90.1-microsoft-standard-WSL2": {true, false},
		"6.6.36.3-microsoft-standard-WSL2+": {true, false},
		"6.1.0-18-amd64":                    {false, false},
		"":                                  {false, false},
	} {
		if got := [2]bool{IsWSL(release), IsWSL1(release)}; got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
