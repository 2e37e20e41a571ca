package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestAllowPermanentWithAProviderOfTheProgram holds that a grant is written into
// settings that name such a provider, and into none that name an unknown one.
func TestAllowPermanentWithAProviderOfTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.json")
	before := `{"agents": {"defaults": {"sandbox": {"provider": "daytona"}}}}`
	must(t, os.WriteFile(path, []byte(before), 0o600))
	g := permission(sandbox.OpRead, "/data")
	if err := AllowPermanent(path, "main", g); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a program without the provider: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != before {
		t.Errorf("it was changed to %s, %v", now, err)
	}
	must(t, AllowPermanent(path, "main", g, "daytona"))
	if now, err := os.ReadFile(path); err != nil || !strings.Contains(string(now), `"allowRead": ["/data"]`) || !strings.Contains(string(now), "daytona") {
		t.Errorf("it is %s, %v", now, err)
	}
}
