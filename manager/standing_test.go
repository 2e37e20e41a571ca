package manager

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

func parsed(t *testing.T, prefix string) *config.Settings {
	t.Helper()
	s, err := config.Parse("test", []byte(`{"agents":{"defaults":{"sandbox":{"docker":{"containerPrefix":"`+prefix+`"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func session(n int) config.Who {
	return config.Who{Agent: "main", Session: fmt.Sprintf("s%d", n)}
}

// TestStandingFollowsTheSettings holds that each settings are asked once for
// each session, and that none are answered for by others.
func TestStandingFollowsTheSettings(t *testing.T) {
	var s settingsCache[string]
	asked := 0
	say := func(res config.Resolved) (string, error) {
		asked++
		return res.Docker.ContainerPrefix + res.Session, nil
	}
	first, second := parsed(t, "one-"), parsed(t, "two-")
	for i, step := range []struct {
		settings *config.Settings
		who      config.Who
		want     string
		asked    int
	}{
		{first, session(1), "one-s1", 1},
		{first, session(1), "one-s1", 1},
		{first, session(2), "one-s2", 2},
		{second, session(1), "two-s1", 3},
		{second, session(1), "two-s1", 3},
		{first, session(1), "one-s1", 4},
		{first, config.Who{Tenant: "other", Agent: "main", Session: "s1"}, "one-s1", 5},
	} {
		got, err := s.of(step.settings, step.who, say)
		if err != nil || got != step.want || asked != step.asked {
			t.Errorf("step %d: %q after %d, %v; want %q after %d", i, got, asked, err, step.want, step.asked)
		}
	}
}

func TestStandingIsBounded(t *testing.T) {
	var s settingsCache[string]
	settings := parsed(t, "one-")
	for i := range 3 * settingsCacheMax {
		got, err := s.of(settings, session(i), func(res config.Resolved) (string, error) { return res.Session, nil })
		if err != nil || got != session(i).Session || len(s.known) > settingsCacheMax {
			t.Fatalf("%d: %q, %v, with %d known", i, got, err, len(s.known))
		}
	}
}

func TestStandingForgetsErrors(t *testing.T) {
	var s settingsCache[string]
	settings, boom := parsed(t, "one-"), errors.New("boom")
	for range 2 {
		if _, err := s.of(settings, session(1), func(config.Resolved) (string, error) { return "", boom }); !errors.Is(err, boom) {
			t.Fatal(err)
		}
	}
	if got, err := s.of(settings, session(1), func(config.Resolved) (string, error) { return "well", nil }); got != "well" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestStandingWhileSettingsChange checks that no caller gets what follows from
// other settings than those that it passed.
func TestStandingWhileSettingsChange(t *testing.T) {
	var s settingsCache[string]
	all := []*config.Settings{parsed(t, "one-"), parsed(t, "two-")}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				settings, want := all[(g+i)%2], []string{"one-", "two-"}[(g+i)%2]
				got, err := s.of(settings, session(i%3), func(res config.Resolved) (string, error) { return res.Docker.ContainerPrefix, nil })
				if err != nil || got != want {
					t.Errorf("%q, %v, want %q", got, err, want)
				}
			}
		})
	}
	wg.Wait()
}
