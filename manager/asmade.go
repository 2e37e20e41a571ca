package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// withFolder lays the folder of a private view and an image over the flags of a
// call, where neither they nor the settings of the call name others.
func (m *Manager) withFolder(req Request, folder, image string) (*config.SandboxSettings, error) {
	settings, err := m.currentOf(req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	res, err := m.describer.resolved(settings, req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	var flags config.SandboxSettings
	if req.Flags != nil {
		flags = *req.Flags
	}
	if folder != "" && flags.Workspace == nil && flags.WorkspaceAccess == nil && !res.Private() {
		access := sandbox.AccessPrivate
		flags.WorkspaceAccess, flags.Workspace = &access, &folder
	}
	var docker config.DockerSettings
	if flags.Docker != nil {
		docker = *flags.Docker
	}
	if image != "" && docker.Image == nil && image != res.Docker.Image {
		docker.Image = &image
		flags.Docker = &docker
	}
	return &flags, nil
}

// asMade returns the request with the flags that the session's sandbox was made
// with, so that the call is about that one, and does not make it anew.
func (c *checkpoints) asMade(ctx context.Context, req Request) (Request, error) {
	name, err := c.m.Name(req.Who, req.Flags)
	if err != nil {
		return req, err
	}
	rec, err := c.m.Recorded(ctx, req.Who.Tenant, name, "")
	if sandbox.IsNotFound(err) || sandbox.CodeOf(err) == sandbox.CodeValidation { // the call itself says so
		return req, nil
	}
	if err == nil {
		rec, err = c.m.records.Of(rec.Provider).Get(rec.Kind, rec.Name)
	}
	if err != nil || rec.Spec == nil {
		return req, err
	}
	folder := ""
	if m, ok := viewOf(*rec.Spec); ok {
		folder = m.Base
	}
	req.Flags, err = c.m.withFolder(req, folder, rec.Spec.Image)
	return req, err
}

// beginsWith finds the checkpoint that the sandbox of the request begins with, and
// returns the request with the image and the private view of that.
func (c *checkpoints) beginsWith(ctx context.Context, req Request) (Request, *checkpoint.Record, error) {
	rec, _, err := c.find(ctx, req.Who.Tenant, req.From)
	if err != nil {
		return req, nil, err
	}
	folder := ""
	for _, t := range rec.Trees {
		if t.Name == checkpoint.WorkspaceTree {
			folder = t.Base
		}
	}
	req.Flags, err = c.m.withFolder(req, folder, rec.Image)
	return req, &rec, err
}
