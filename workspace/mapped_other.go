//go:build !linux

package workspace

import "errors"

var errNoMapped = errors.New("ID-mapped mounts are made by Linux alone")

// CanMap returns why [Map] cannot mount the folder for o, or nil.
func CanMap(string, Owner) error { return errNoMapped }

// Map mounts the folder, which belongs to root, at place as one that belongs to o.
func Map(string, string, Owner) error { return errNoMapped }

// Unmap takes away what is mounted at place, and place.
func Unmap(string) error { return nil }
