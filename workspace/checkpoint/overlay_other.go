//go:build !linux

package checkpoint

import (
	"errors"
	"os"
)

var errNoOverlay = errors.New("this system has no overlay file system")

func (o overlay) mount() (*os.File, error) { return nil, errNoOverlay }

func attach(*os.File, string) error { return errNoOverlay }

func attachBeneath(*os.File, string) error { return errNoOverlay }

func detach(string) error { return errNoOverlay }

func cloneMount(string) (*os.File, error) { return nil, errNoOverlay }

func setReadOnly(string) error { return errNoOverlay }

func forget(string) error { return errNoOverlay }

// mountsAt lists nothing: this package mounts nothing here.
func mountsAt(string) ([]mounted, error) { return nil, nil }

func inUserNamespace() bool { return false }

func probeOverlay(string) error { return errNoOverlay }
