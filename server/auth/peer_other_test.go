//go:build !linux

package auth

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)
