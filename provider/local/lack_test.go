//go:build linux

package local

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestFirstWindowsSubsystemIsRefused(t *testing.T) {
	p := New(Options{State: t.TempDir()})
	defer p.Close()
	p.release = func() string { return "4.4.0-19041-Microsoft" }
	_, err := p.Create(t.Context(), sandbox.Spec{Name: "x"})
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "WSL 1") {
		t.Errorf("create: %v", err)
	}
	for _, fine := range []string{"5.15.90.1-microsoft-standard-WSL2", "6.1.0-18-amd64", ""} {
		if err := refuseRelease(fine); err != nil {
			t.Errorf("%q: %v", fine, err)
		}
	}
}
