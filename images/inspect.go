package images

import (
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/bulkhead-dev/sandbox/images/about"
)

// Inspect returns what the engine knows about ref, a reference or an ID, in
// one call. The error has CodeNotFound only when the engine has answered that
// there is no such image; no answer is CodeUnavailable or CodeTimeout.
func (s *Store) Inspect(ctx context.Context, ref string) (Image, error) {
	const op = "inspect image"
	if err := checkRef(op, ref); err != nil {
		return Image{}, err
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	r, err := s.api.ImageInspect(ctx, ref)
	if err != nil {
		return Image{}, engineError(ctx, op, ref, err)
	}
	img := Image{Ref: ref, ID: r.ID, Size: r.Size, Tags: r.RepoTags,
		Platform: about.Platform{OS: r.Os, Architecture: r.Architecture, Variant: r.Variant, OSVersion: r.OsVersion}}
	if t, err := time.Parse(time.RFC3339Nano, r.Created); err == nil {
		img.Created = t
	}
	if r.Config != nil {
		img.Labels, img.User = r.Config.Labels, r.Config.User
		img.Volumes = slices.Sorted(maps.Keys(r.Config.Volumes))
	}
	return s.judge(img), nil
}

// noTag stands for "no tag" in answers of older engines.
const noTag = "<none>:<none>"

// List returns the images that this program made on the engine, newest
// first, in one call. Images that only other installations use are among
// them: images are shared by all who use the engine.
func (s *Store) List(ctx context.Context) ([]Image, error) {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	sums, err := s.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelKind))})
	if err != nil {
		return nil, engineError(ctx, "list images", "", err)
	}
	imgs := make([]Image, 0, len(sums))
	for _, sum := range sums {
		img := Image{Ref: sum.ID, ID: sum.ID, Created: time.Unix(sum.Created, 0).UTC(), Size: sum.Size, Labels: sum.Labels}
		for _, tag := range sum.RepoTags {
			if tag != noTag {
				img.Tags = append(img.Tags, tag)
			}
		}
		if len(img.Tags) > 0 {
			img.Ref = img.Tags[0]
		}
		imgs = append(imgs, s.judge(img))
	}
	sort.SliceStable(imgs, func(i, j int) bool { return imgs[i].Created.After(imgs[j].Created) })
	return imgs, nil
}

// judge fills in what the labels say. A setup layer inherits the recipe's
// digest from the image below it, so it is stale with it.
func (s *Store) judge(img Image) Image {
	img.Origin = originOf(img.Labels)
	switch img.Origin {
	case OriginSandbox, OriginBrowser, OriginCode, OriginLanguage, OriginSetup:
		made := img.Labels[labelDigest]
		img.Stale = made != "" && !s.madeFrom(func(r recipe) bool { return r.digest() == made })
	case OriginBootstrap:
		img.Stale = !s.madeFrom(func(r recipe) bool { return r.packages() == img.Labels[labelPackages] })
	}
	return img
}

// callContext bounds one short engine call.
func (s *Store) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.cfg.Timeouts.Call, errNoReply)
}
