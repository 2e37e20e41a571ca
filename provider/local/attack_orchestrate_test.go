//go:build linux

package local_test

func orchestrateMain(args []string) int { return 2 }
