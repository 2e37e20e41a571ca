//go:build !linux

package registry

import (
	"context"
	"errors"
)

// watch is an error: here no kernel tells of changes in folders.
func watch(context.Context, []string, func()) error {
	return errors.ErrUnsupported
}
