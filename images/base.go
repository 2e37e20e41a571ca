package images

import (
	"context"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// base returns the image to build r on; see Build for the order.
func (s *Store) base(ctx context.Context, r recipe, want string, say reporter) (Image, error) {
	o := Options{Progress: relay(say)}
	if want != "" {
		return s.Ensure(ctx, want, o)
	}
	if r.origin == OriginLanguage { // which shares the layers of the default image
		return s.Ensure(ctx, DefaultImage, o)
	}
	img, err := s.Inspect(ctx, BaseImage)
	if err == nil || !sandbox.IsNotFound(err) {
		return img, err
	}
	// A bootstrapped base is there because no registry was in reach; using
	// it spares another try. It is passed over when the recipe has come to
	// want other packages.
	plan, planErr := s.plan(r)
	if planErr == nil {
		img, err = s.Inspect(ctx, plan.ref())
		if err != nil && !sandbox.IsNotFound(err) {
			return img, err
		}
		if err == nil && img.Labels[labelPackages] == r.packages() {
			return img, nil
		}
	}
	img, err = s.pull(ctx, BaseImage, o, true)
	if err == nil || ctx.Err() != nil {
		return img, err
	}
	say(Event{Phase: PhaseBuild, Text: "cannot pull " + BaseImage + " (" + reason(err) + "); bootstrapping a base from the host's package sources"})
	img, bootErr := s.bootstrap(ctx, r, o, true)
	if bootErr != nil {
		return Image{}, noBase(err, bootErr)
	}
	return img, nil
}

// noBase reports both failed ways with the code of the second.
func noBase(pullErr, bootErr error) error {
	return &sandbox.Error{Code: sandbox.CodeOf(bootErr), Op: "find base image", Resource: BaseImage,
		Message: "no base image: pulling failed (" + reason(pullErr) + "), and so did bootstrapping", Err: bootErr,
		Hint: "reach a registry, or install mmdebstrap and see that `apt-get update` works"}
}

// reason is the innermost text of err in one short line.
func reason(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			break
		}
		if _, isClean := err.(*cleanedError); isClean {
			break
		}
		err = inner.Unwrap()
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return clip(printable(line), 200)
}
