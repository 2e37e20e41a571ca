package cli

import (
	"path/filepath"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// placeFlags say which sandbox a command that makes one works in, beside the
// global flags.
type placeFlags struct {
	image, workspace text
	caches           names
	private          bool
	access           sandbox.Access // in place of private, where a command sets it; or empty
}

func newPlaceFlags() placeFlags {
	return placeFlags{image: text{check: notEmpty}, workspace: text{check: notEmpty}, caches: names{allowed: config.CacheTools(), word: config.CacheTool}}
}

func (f *placeFlags) flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "image", Usage: "`IMAGE` of the sandbox; " + strings.Join(sandbox.Languages(), ", ") + " are images of this program for one language", Value: &f.image},
		&ucli.GenericFlag{Name: "cache", Usage: "keep the caches of these package managers for later sandboxes: `TOOLS` of " + strings.Join(config.CacheTools(), ","), Value: &f.caches},
		&ucli.GenericFlag{Name: "workspace", Usage: "host `FOLDER` that becomes /workspace", Value: &f.workspace},
		&ucli.BoolFlag{Name: "private", Usage: "make /workspace a copy-on-write view of that folder, or of the agent's, which stays as it is", Destination: &f.private},
	}
}

// layer returns the flags of this call as a layer of settings. What -e, -w
// and --timeout say belongs to the command and not to the sandbox, so that
// two commands with different flags share one.
func (f *placeFlags) layer(g *globals) (*config.SandboxSettings, error) {
	o, err := f.overrides(g)
	if err != nil {
		return nil, err
	}
	return o.Layer(), nil
}

// overrides is layer before it is one.
func (f *placeFlags) overrides(g *globals) (config.Overrides, error) {
	o := config.Overrides{Image: f.image.value, CacheTools: f.caches.values, Provider: g.provider.value, Access: f.access}
	if f.private {
		o.Access = sandbox.AccessPrivate
	}
	if f.workspace.given {
		dir, err := filepath.Abs(f.workspace.value)
		if err != nil {
			return o, &sandbox.Error{Code: sandbox.CodeValidation, Op: "run", Field: "workspace", Message: "the folder cannot be found", Err: err}
		}
		o.Workspace = dir
	}
	return o, nil
}
