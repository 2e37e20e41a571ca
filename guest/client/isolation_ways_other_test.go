//go:build !amd64

package client_test

func olderWays(uintptr) map[string]func() error { return nil }
