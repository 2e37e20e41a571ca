//go:build !sandbox_front

package orchestrator

import (
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// An engine is what this program has of the Docker engine.
type engine struct {
	*container.Engine                 // nil when its address is no good
	missing           error           // why
	images            *images.Store   // nil like Engine
	ids               *images.Watched // nil like Engine
}

// connect prepares a connection to the engine and does not talk to it yet.
func connect(state *statedir.Dir, progress about.Progress) engine {
	api, err := container.Dial()
	if err != nil {
		return engine{missing: err}
	}
	store := images.New(api, images.Config{LockDir: filepath.Join(state.Locks(), "images")})
	return engine{
		Engine: container.New(api, container.Deadlines{}),
		images: store,
		ids:    images.Source{Store: store, Progress: progress}.Watched(),
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
		e.ids.Close()
		e.Engine.Close()
	}
}

// source answers for images.
func (e engine) source() manager.Images {
	if e.ids == nil {
		return noImages{e.missing}
	}
	return e.ids
}

// containers returns the provider of Docker containers.
func (h *Orchestrator) containers() sandbox.Provider {
	if h.engine.Engine == nil {
		return provider.Unusable("docker", h.engine.missing)
	}
	return docker.New(h.engine.Engine, docker.Options{
		Sockets: h.state, Instance: h.state.Instance(),
		World: h.worldNow, Protection: filepath.Join(h.state.Path(), "docker"), Images: filepath.Join(h.state.Path(), "images"), Home: h.world.Home,
		Warn: func(name, warning string) { h.o.Log.WithField("sandbox", name).Warn(warning) },
	})
}

// Images makes and finds images; the error says why there is no engine to hold
// any.
func (h *Orchestrator) Images() (*images.Store, error) { return h.engine.images, h.engine.missing }

// Engine returns the Docker engine; the error says why there is none. It ends with the
// Orchestrator.
func (h *Orchestrator) Engine() (*container.Engine, error) { return h.engine.Engine, h.engine.missing }
