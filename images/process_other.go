//go:build !linux

package images

import "os/exec"

// Bootstrapping is for Linux hosts: elsewhere the tools do not exist, and
// these do nothing.

func ownGroup(*exec.Cmd)  {}
func ownMounts(*exec.Cmd) {}
func killGroup(*exec.Cmd) {}
