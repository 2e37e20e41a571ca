//go:build !linux

package workspace

import (
	"context"
	"errors"
)

var errNoQuota = errors.New("quotas are made with loop devices of Linux")

func quotaSources() []string                                   { return nil }
func quotaPossible() error                                     { return errNoQuota }
func makeImage(context.Context, string, int64, Owner) error    { return errNoQuota }
func mountImage(context.Context, string, string) error         { return errNoQuota }
func growImage(context.Context, string, string, int64) error   { return errNoQuota }
func unmountImage(_ context.Context, image, path string) error { return errNoQuota }
func mountedSize(string) (int64, error)                        { return 0, errNoQuota }

// usedOf is [Used].
func usedOf(string) (bytes, size int64, own bool) { return 0, 0, false }
