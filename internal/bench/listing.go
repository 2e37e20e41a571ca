//go:build linux

package main

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// namesOf takes the names of es, each of which must be described.
func namesOf(names *[]string, es []fs.DirEntry, err error) error {
	for _, e := range es {
		if _, err := e.Info(); err != nil {
			return err
		}
		*names = append(*names, e.Name())
	}
	return err
}

// hostList reads the folder d, sorted by name.
func hostList(names *[]string, d *os.File) error {
	es, err := d.ReadDir(-1)
	slices.SortFunc(es, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return namesOf(names, es, err)
}
