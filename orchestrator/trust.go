//go:build !sandbox_front

package orchestrator

import (
	"context"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/manager"
)

// trusted says what sandboxes of the image trust beside the roots of the image,
// or of this machine where there is none, and makes the folder with it.
func (h *Orchestrator) trusted(ctx context.Context, ca []byte, image string, make bool) (manager.Trusted, error) {
	t := manager.Trusted{Dir: egress.CompanyDir(h.state.Egress(), image, ca), Java: egress.JavaOptions}
	var env map[string]string // of the image
	if image != "" {
		var err error
		if env, err = h.engine.images.Environment(ctx, image); err != nil {
			return t, err
		}
	}
	t.Env, t.ImageJava = egress.CompanyEnv(env), env[config.JavaVariable]
	if !make {
		return t, nil
	}
	a, err := h.exit.authority()
	if err != nil {
		return t, err
	}
	t.Dir, err = a.BundleWith(egress.Base{Image: image, Read: func() ([]byte, error) {
		return h.engine.images.File(ctx, image, egress.Roots(env))
	}}, ca)
	return t, err
}
