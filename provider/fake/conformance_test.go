package fake_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, faked.Harness())
}
