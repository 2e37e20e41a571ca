//go:build !linux

package workspace

// searchOnly is nothing here: a folder is opened to read it.
const searchOnly = 0
