package hardening

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// TestBuiltinProfiles checks what Seccomp assumes: that the built-in profiles
// pass the checks made of a user's profile.
func TestBuiltinProfiles(t *testing.T) {
	for name, p := range map[string]string{"commands": seccomp.Profile(), "browsers": seccomp.Browser()} {
		if !seccomp.Builtin(p) || seccomp.Builtin(p+" ") || seccomp.Builtin("") {
			t.Errorf("the profile for %s is not told from others", name)
		}
		if err := foreignSeccomp("docker.seccompProfile", p); err != nil {
			t.Errorf("the profile for %s: %v", name, err)
		}
	}
}

// BenchmarkSeccomp measures the check of our profile.
func BenchmarkSeccomp(b *testing.B) {
	p := seccomp.Profile()
	for b.Loop() {
		if err := Seccomp("docker.seccompProfile", p); err != nil {
			b.Fatal(err)
		}
	}
}
