package doctor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/doctor"
)

// TestEvidence holds that doctor tells when nothing can be put on record, and
// what the settings want there.
func TestEvidence(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		ill    func(*world)
		want   doctor.Status
		detail string
		fix    string
	}{
		{"nothing yet", func(*world) {}, doctor.OK, "nothing is recorded yet, commands without a grant are not", ""},
		{"signed", func(w *world) { w.kept = doctor.Evidence{Chains: 2, Key: "0f"} }, doctor.OK, "tenants with records: 2, signed by key 0f", ""},
		{"commands", func(w *world) { w.settings.RecordsCommands = true }, doctor.OK, "commands are put on record", ""},
		{"required", func(w *world) { w.settings.RequireEvidence, w.settings.RecordsCommands = true, true }, doctor.OK, "nothing runs that is not on record", ""},
		{"the key is gone", func(w *world) { w.kept = doctor.Evidence{Chains: 1} }, doctor.Fail, "missing", "restore"},
		{"the key is open to others", func(w *world) {
			w.keptErr = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read evidence key", Message: "evidence.key can be read by others (mode 0644)", Hint: "chmod 600 evidence.key"}
		}, doctor.Fail, "mode 0644", "chmod 600"},
		{"the folder cannot be read", func(w *world) { w.keptErr = errors.New("input/output error") }, doctor.Fail, "input/output error", "accessible"},
		{"settings wrong", func(w *world) { w.setErr = errors.New("x") }, doctor.OK, "the settings cannot be read", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := healthy()
			tt.ill(w)
			c := lookFor(t, doctor.Run(t.Context(), w.deps()), "evidence")
			if c.Status != tt.want || !strings.Contains(c.Detail, tt.detail) || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("%s %q, fix %q; want %s with %q and %q", c.Status, c.Detail, c.Fix, tt.want, tt.detail, tt.fix)
			}
		})
	}
}
