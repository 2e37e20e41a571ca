//go:build sandbox_front || sandbox_engine

package main

import "github.com/bulkhead-dev/sandbox/internal/cli"

// speaking executes the program that is a client of daemons in place of this
// one. Package sdk links the daemon too, because it can serve itself.
func speaking() error { return handOver(daemonName, "is a client of daemons") }

func remoteManager(cli.Options) (cli.Manager, func(), error) { return nil, nil, speaking() }

func remoteViolations(cli.Host) (cli.ViolationStore, func(), error) { return nil, nil, speaking() }

func remoteEvidence(cli.Host) (cli.EvidenceStore, func(), error) { return nil, nil, speaking() }

func remoteBrowsers(cli.Host) (cli.BrowserDisplay, func(), error) { return nil, nil, speaking() }

func remoteTokens(cli.Host) (cli.TokenStore, func(), error) { return nil, nil, speaking() }

func remotePorts(cli.Host) (cli.PortStore, func(), error) { return nil, nil, speaking() }

func remoteCheckpoints(cli.Host) (cli.CheckpointStore, func(), error) { return nil, nil, speaking() }

// Console implements cli.Backend.
func (backend) Console(cli.Options) (cli.ConsoleStore, func(), error) { return nil, nil, speaking() }

func remoteChanges(cli.Host) (cli.ChangeStore, func(), error) { return nil, nil, speaking() }
