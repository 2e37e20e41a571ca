//go:build !linux

package caller

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
