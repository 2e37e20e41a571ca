package docker_test

import (
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// TestOptionsAreRefused holds that the provider takes no option in silence, also
// from a caller that does not ask it first. No engine is asked.
func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := docker.New(nil, docker.Options{}).Create(t.Context(), sandbox.Spec{Name: "sbx-options", Options: map[string]any{"pull": "never"}})
	e, _ := errors.AsType[*sandbox.Error](err)
	if e == nil || e.Code != sandbox.CodeValidation || e.Field != "providerOptions.pull" {
		t.Errorf("%v", err)
	}
}
