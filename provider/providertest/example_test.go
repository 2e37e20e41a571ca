package providertest_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// A provider's own test hands the suite a way to make the provider and its
// Specs, and names what it cannot pass with the reason.
func ExampleRun() {
	_ = func(t *testing.T) { // in a real test: func TestConformance(t *testing.T)
		providertest.Run(t, providertest.Harness{
			New: func(t testing.TB) sandbox.Provider { return fake.New(fake.Options{}) },
			Spec: func(t testing.TB, key string) sandbox.Spec {
				return sandbox.Spec{Name: "sbx-" + key, Kind: sandbox.KindSandbox, UID: 1000, GID: 1000}
			},
			Without: map[string]string{
				"an engine that hangs times out": "this provider has no engine",
			},
		})
	}
}
