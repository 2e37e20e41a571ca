//go:build !linux

package launch

import (
	"errors"
	"os/exec"
)

var errNotHere = errors.New("not on this system")

func asNobody(*exec.Cmd) {}

func landlockVersion() (int, error) { return 0, errNotHere }

func filterSupport() error { return errNotHere }

// LandlockABI is 0 here.
func LandlockABI() int { return 0 }
