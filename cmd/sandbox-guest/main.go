//go:build linux

// Command sandbox-guest is the helper process inside every sandbox. It is not
// meant to be run by hand: the program sandbox mounts it into a container and
// starts it there as the first process.
//
//	sandbox-guest init     be process 1 and run commands for the client outside
//	sandbox-guest relay    connect standard input and output with the guest
//	sandbox-guest landlock start init in a sandbox that has the namespaces of the host (internal)
//	sandbox-guest hold     start a persistent shell, and hold descriptors for it (internal)
//	sandbox-guest install  prepare the volumes of a pod, before init runs in it
//	sandbox-guest tree     pack a folder, or make it what an archive holds, as a command
//	sandbox-guest probe    try one known escape, for sandbox doctor --attack
//	sandbox-guest version  print the protocol version
package main

import (
	"os"
	"strconv"

	"github.com/bulkhead-dev/sandbox/guest/server"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/attack/probe"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	mode := ""
	if len(args) > 0 {
		mode = args[0]
	}
	switch mode {
	case "init":
		return server.Init(args[1:])
	case "relay":
		return server.Relay()
	case "install":
		return server.Install(args[1:])
	case "hold":
		return server.Main(args[1:])
	case "landlock":
		return server.Landlock(args[1:])
	case "landlocked":
		return server.Landlocked(args[1:])
	case "tree":
		return server.Tree(args[1:])
	case "probe":
		return probe.Main(args[1:])
	case "version":
		_, _ = os.Stdout.WriteString(strconv.Itoa(wire.Version) + "\n")
		return 0
	}
	_, _ = os.Stderr.WriteString("usage: sandbox-guest init|relay|install|hold|tree|probe|version\n")
	return 2
}
