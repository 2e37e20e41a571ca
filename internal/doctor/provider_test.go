package doctor_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/doctor"
)

// TestOptionsOfDocker holds that options that docker does not have are a finding.
func TestOptionsOfDocker(t *testing.T) {
	for wanted, status := range map[string]doctor.Status{"docker": doctor.Fail, "local": doctor.Warn} {
		w := healthy()
		w.settings.Provider = wanted
		d := w.deps()
		d.Local = append(d.Local, doctor.OptionsCheck("docker", map[string]any{"pull": 1}))
		r := doctor.Run(t.Context(), d)
		if c := r.Checks[len(r.Checks)-1]; c.Name != "provider-options" || c.Status != status || !strings.Contains(c.Detail, "providerOptions.pull") {
			t.Errorf("%s: %+v", wanted, c)
		}
	}
	if s, detail, _ := doctor.OptionsCheck("docker", nil).Look(t.Context()); s != doctor.OK {
		t.Errorf("%s: %s", s, detail)
	}
}
