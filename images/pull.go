package images

import (
	"context"
	"errors"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Pull fetches ref from its registry, also when an image of that name is
// there already, and returns what ref then names. References that this
// program makes itself are refused with CodeValidation.
func (s *Store) Pull(ctx context.Context, ref string, o Options) (Image, error) {
	return s.pull(ctx, ref, o, false)
}

// pull is Pull; with keep, an image that has come up meanwhile is taken.
func (s *Store) pull(ctx context.Context, ref string, o Options, keep bool) (Image, error) {
	const op = "pull image"
	if err := checkRef(op, ref); err != nil {
		return Image{}, err
	}
	if kind, _ := s.classify(ref); kind != refForeign {
		return Image{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "image", Resource: ref,
			Message: "images of this program are made here and never pulled", Hint: "`sandbox images build`"}
	}
	full, err := taggedRef(ref)
	if err != nil {
		return Image{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: ref,
			Message: "there is no image of that ID and an ID cannot be pulled", Hint: "name the image by its reference"}
	}
	return s.make(ctx, "pull ", ref, PhasePull, o, keep, func(ctx context.Context, say reporter) error {
		return s.pullNow(ctx, ref, full, say)
	})
}

// taggedRef completes a reference as the engine's command line does, so that
// a name without tag fetches one image and not every tag of it.
func taggedRef(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}

// pullNow runs the pull. A registry that has not answered after PullStart is
// given up, since an engine keeps trying a dead address for minutes.
func (s *Store) pullNow(ctx context.Context, ref, full string, say reporter) error {
	ctx, alive, cancel := s.work(ctx)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	start := time.AfterFunc(s.cfg.Timeouts.PullStart, func() { abort(errNoAnswer) })
	defer start.Stop()

	say(Event{Phase: PhasePull, Text: "asking the registry"})
	body, err := s.api.ImagePull(ctx, full, image.PullOptions{})
	if err == nil {
		defer body.Close()
		err = follow(body, func(m message) {
			start.Stop()
			alive()
			say(Event{Phase: PhasePull, Part: m.ID, Text: m.Status, Current: m.Progress.Current, Total: m.Progress.Total})
		})
	}
	if err == nil {
		return nil
	}
	return pullError(ctx, ref, err)
}

const hintPull = "`docker pull` it with your login, or use " + DefaultImage + " (for a browser " + BrowserImage + ", for code " + CodeImage +
	"), which `sandbox images build` (`--browser`, `--code`) and, without a registry, `sandbox images bootstrap` make"

// pullError words what a failed pull means to the user: there is no image
// to work with, whatever the reason. Not CodeNotFound, which is the answer
// of Inspect.
func pullError(ctx context.Context, ref string, err error) error {
	out := engineError(ctx, "pull image", ref, err)
	var e *sandbox.Error
	if !errors.As(out, &e) || errors.Is(context.Cause(ctx), context.Canceled) {
		return out
	}
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		e.Message, e.Hint = "cannot pull "+printable(ref)+": "+e.Message, hintPull
	}
	if e.Code == sandbox.CodeNotFound || e.Message == "the engine refused" {
		e.Code, e.Message = sandbox.CodeUnavailable, "cannot pull "+printable(ref)
		e.Hint = hintPull
	}
	return e
}
