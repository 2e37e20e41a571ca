//go:build linux

package attack

func orchestrateMain(args []string) int { return 2 }
