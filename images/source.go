package images

import (
	"context"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// A Source returns the ids of images, for callers that make sandboxes from
// images and need nothing else of them.
type Source struct {
	Store    *Store
	Progress Progress // hears of images being made; nil is silence
}

// renewal is the command that makes a stale image of ours anew.
func renewal(img Image) string {
	command := "sandbox images build"
	if img.Origin == OriginBootstrap {
		command = "sandbox images bootstrap"
	}
	if img.Origin == OriginBrowser || strings.HasPrefix(img.Ref, "sandbox-browser") {
		command += " --browser"
	}
	if img.Origin == OriginCode || strings.HasPrefix(img.Ref, "sandbox-code") {
		command += " --code"
	}
	for _, name := range sandbox.Languages() {
		if strings.HasPrefix(img.Ref, "sandbox-"+name+":") || strings.HasPrefix(img.Ref, "sandbox-"+name+"-base:") {
			command += " --language " + name
		}
	}
	return command
}

// Current returns the id of ref with the setup commands applied, in at most two
// engine calls. It returns [sandbox.CodeNotFound] if the image has to be made
// first, and [sandbox.CodeValidation] for an image of another platform than
// this machine's. An image of ours from an older recipe is used as it is, and
// reported to Progress.
func (s Source) Current(ctx context.Context, ref string, setup []string) (string, error) {
	base, err := s.Store.Inspect(ctx, ref)
	if err == nil && base.Stale && s.Progress != nil {
		s.Progress.Report(Event{Image: ref, Phase: PhaseOutdated, Done: true, Text: "made from another recipe than this program has, and may lack programs; renew it: " + renewal(base)})
	}
	if err == nil {
		err = s.Store.checkPlatform("inspect image", base)
	}
	if err != nil {
		return "", err
	}
	if len(setup) == 0 {
		return base.ID, nil
	}
	img, err := s.Store.Inspect(ctx, setupRepo+":"+SetupKey(base.ID, setup)[:16])
	if err != nil {
		return "", err
	}
	if img.Labels[labelSetup] != SetupKey(base.ID, setup) {
		return "", sandbox.Errorf(sandbox.CodeNotFound, "inspect image", "the setup layer of %s was not made yet", ref)
	}
	return img.ID, nil
}

// Volumes returns the folders that the image id declares as volumes, in order.
func (s Source) Volumes(ctx context.Context, id string) ([]string, error) {
	img, err := s.Store.Inspect(ctx, id)
	return img.Volumes, err
}

// Environment returns the variables that the image id sets.
func (s Source) Environment(ctx context.Context, id string) (map[string]string, error) {
	return s.Store.Environment(ctx, id)
}

// Program returns what a container of the image id runs.
func (s Source) Program(ctx context.Context, id string) (about.Program, error) {
	return s.Store.Program(ctx, id)
}

// Ensure makes what is missing and returns the id; for other platforms see
// Current.
func (s Source) Ensure(ctx context.Context, ref string, setup []string) (string, error) {
	o := Options{Progress: s.Progress}
	base, err := s.Store.Ensure(ctx, ref, o)
	if err == nil {
		err = s.Store.checkPlatform("ensure image", base)
	}
	if err != nil {
		return "", err
	}
	img, err := s.Store.EnsureSetup(ctx, base, setup, o)
	return img.ID, err
}
