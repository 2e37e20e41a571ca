//go:build !linux

package testenv

func landlockMissing() string { return "only Linux has Landlock" }
