//go:build !sandbox_front

package main

import (
	"context"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/client"
	"github.com/bulkhead-dev/sandbox/client/conductor"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/statedir"
)

// An engine is what this program has of the Docker engine.
type engine struct {
	*container.Engine               // nil when its address is no good
	missing           error         // why
	images            *images.Store // nil like Engine
}

// connect prepares a connection to the engine and does not talk to it yet.
func connect(state *statedir.Dir) engine {
	api, err := container.Dial()
	if err != nil {
		return engine{missing: err}
	}
	return engine{
		Engine: container.New(api, container.Deadlines{}),
		images: images.New(api, images.Config{LockDir: filepath.Join(state.Locks(), "images")}),
	}
}

// address is where the engine listens, or empty.
func (e engine) address() string {
	if e.Engine == nil {
		return ""
	}
	return e.Host()
}

func (e engine) close() {
	if e.Engine != nil {
		e.Engine.Close()
	}
}

// source answers for images.
func (e engine) source(o cli.Options) manager.Images {
	if e.images == nil {
		return noImages{e.missing}
	}
	return images.Source{Store: e.images, Progress: o.Progress}
}

// containers returns the provider of Docker containers.
func (h *house) containers(o cli.Options) sandbox.Provider {
	if h.engine.Engine == nil {
		return provider.Unusable("docker", h.engine.missing)
	}
	return docker.New(h.engine.Engine, docker.Options{
		Sockets: h.state, Instance: h.state.Instance(),
		World: h.worldNow,
		Warn:  func(name, warning string) { o.Log.WithField("sandbox", name).Warn(warning) },
	})
}

// begin is nothing: every call can be carried out here.
func (*house) begin() func(context.Context, config.Resolved, manager.Request) error { return nil }

// conductorOf returns what carries out all that a command wants of m.
func conductorOf(m *manager.Manager) cli.Conductor { return m }

// remote returns what has a daemon do it.
func remote(h cli.Host) (cli.Conductor, func(), error) {
	d, err := conductor.New(h.Address, client.Options{Token: h.Token})
	if err != nil {
		return nil, nil, err
	}
	return d, func() { d.Close() }, nil
}

// Images implements cli.Backend.
func (backend) Images(o cli.Options) (cli.ImageStore, func(), error) {
	h, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	if h.engine.images == nil {
		h.close()
		return nil, nil, h.engine.missing
	}
	return h.engine.images, h.close, nil
}
