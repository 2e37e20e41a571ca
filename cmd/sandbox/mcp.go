//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/mcp"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

const (
	// mcpDrain is how long what calls have left running has to end.
	mcpDrain = 20 * time.Second
	// mcpLine is the longest message of a client, in bytes: the largest input
	// of a tool, as JSON may spell it.
	mcpLine = 2*schema.MaxInput + 64<<10
)

// MCP implements cli.Backend.
func (backend) MCP(ctx context.Context, o cli.Options, s cli.MCPSession) error {
	asker := mcp.NewAsker(false)
	o.Approver = asker
	h, err := open(o)
	if err != nil {
		return err
	}
	defer h.Close()
	m, err := h.Manager()
	if err != nil {
		return err
	}
	figures := prometheus.NewRegistry()
	exports, err := newTelemetry(o.Log, s.Version, figures, figures)
	if err != nil {
		return err
	}
	defer exports.close(o.Log)
	kit := agentTools(o, m, h.Browsers, s.Flags)
	defer kit.end()
	server := mcp.New(mcp.Options{Manager: m, Tools: kit.tools, Asker: asker, Version: s.Version, Log: o.Log, Trace: exports.tracer.Root})
	return server.Serve(ctx, &mcp.Lines{In: s.In, Out: keptOpen{s.Out}, Max: mcpLine}, mcp.Binding{
		Session: tools.Session{Who: s.Who, Flags: s.Flags, Subagent: s.Subagent, Ask: true},
		Caller:  "stdio", Tenant: s.Tenant, Answers: mcp.AnswersForGood,
	})
}

// keptOpen is standard output, which is not the protocol's to close.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// An agentKit is what agents work with: the tools of all sessions, and the
// registry of the shells and processes that they leave open and running.
type agentKit struct {
	tools *tools.Tools
	orch  *running.Supervisor
	log   logrus.FieldLogger
}

// agentTools makes the tools over m, with the display of browsers.
func agentTools(o cli.Options, m *manager.Manager, browsers func() (*display.Display, error), flags *config.SandboxSettings) agentKit {
	k := agentKit{orch: running.New(running.Options{Manager: running.Managed(m), Log: o.Log}), log: o.Log}
	k.tools = tools.New(tools.Options{Manager: m, Running: k.orch, Log: o.Log, Browser: func(ctx context.Context, who config.Who) (browser.Session, error) {
		d, err := browsers()
		if err != nil {
			return nil, err
		}
		return d.Session(ctx, display.Request{Who: who, Flags: flags}, browser.Rights{Write: true})
	}})
	return k
}

// end ends what calls have left open and running.
func (k agentKit) end() {
	ctx, done := context.WithTimeout(context.Background(), mcpDrain)
	defer done()
	for _, end := range []func() error{
		func() error { return k.tools.Close(ctx) }, func() error { return k.orch.Close(ctx) },
	} {
		if err := end(); err != nil {
			k.log.WithError(err).Warn("something that calls have left has not ended in order")
		}
	}
}
