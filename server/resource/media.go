// This file holds the resource that has files from outside copied into a
// workspace. It is for the backend of a tenant, which knows for which session a
// file arrived, and not for the session that an agent uses.

package resource

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A mediaStager copies files into workspaces; *manager.Manager is one.
type mediaStager interface {
	Finder
	Stage(ctx context.Context, who config.Who, refs []string) ([]workspace.Staged, error)
}

// A mediaResource has the route.
type mediaResource struct{ stager mediaStager }

// NewMedia returns the resource.
func NewMedia(s mediaStager) *mediaResource { return &mediaResource{s} }

// staging is how long copying may take; the settings set a shorter time.
const staging = 10 * time.Minute

// Routes implements [Resource].
func (x *mediaResource) Routes() []Route {
	return []Route{{
		ID: "stageMedia", Method: http.MethodPost, Path: api.Prefix + "/sandboxes/{name}/media", Tag: "files", Role: token.Tenant,
		Summary: "Copy files from outside into the workspace",
		Doc:     "Only from the folders and machines that the settings name for the tenant, and all of them or none. The answer says where each lies inside.",
		Request: api.StageMedia{}, Response: api.StagedMedia{}, Errors: []int{403, 404, 429, 501, 503, 504}, Timeout: staging, Do: x.stage,
	}}
}

func (x *mediaResource) stage(c *Call) (any, error) {
	in, err := Body[api.StageMedia](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.stager)
	if err != nil {
		return nil, err
	}
	if len(in.Refs) == 0 {
		return nil, Invalid("refs", "nothing is named")
	}
	staged, err := x.stager.Stage(c.Context(), at.Who, in.Refs)
	if err != nil {
		return nil, err
	}
	out := api.StagedMedia{Items: []api.StagedFile{}}
	for _, s := range staged {
		out.Items = append(out.Items, api.StagedFile{Ref: s.Ref, Path: s.Path, Size: s.Size, MIME: s.MIME, SHA256: s.SHA256})
	}
	return out, nil
}
