package images

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
)

// sweepTime bounds the clean-up after a failure. It runs also when the
// caller has gone.
const sweepTime = 30 * time.Second

// sweepPause lies between two looks of a sweep: the engine notices on its own
// time that a caller has hung up, and until then goes on making layers and
// holds on to those that it has.
const sweepPause = 200 * time.Millisecond

// sweep removes what the build id left: its intermediate containers, and the
// untagged images that carry its label. Best effort; the first error of the
// build is what the caller gets.
//
// When an image of the build has a tag, the build had come to its end and
// only its answer was lost. Sandboxes may run from that image by now, and
// they inherit the label, so then nothing is removed.
func (s *Store) sweep(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
	defer cancel()
	for !s.sweepOnce(ctx, id) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepPause):
		}
	}
}

// sweepOnce removes what is there now and reports whether all of it could be
// removed, or none of it may be.
func (s *Store) sweepOnce(ctx context.Context, id string) (done bool) {
	mine := filters.NewArgs(filters.Arg("label", labelBuild+"="+id))
	left, err := s.api.ImageList(ctx, image.ListOptions{Filters: mine})
	if err != nil {
		return false
	}
	if slices.ContainsFunc(left, tagged) {
		return true
	}
	boxes, err := s.api.ContainerList(ctx, container.ListOptions{All: true, Filters: mine})
	if err != nil {
		return false
	}
	done = true
	for _, c := range boxes {
		err := s.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		done = done && (err == nil || errdefs.IsNotFound(err))
	}
	// Removing the last layer takes its untagged parents along.
	for _, img := range left {
		_, err := s.api.ImageRemove(ctx, img.ID, image.RemoveOptions{PruneChildren: true})
		done = done && (err == nil || errdefs.IsNotFound(err))
	}
	return done
}

func tagged(img image.Summary) bool {
	return slices.ContainsFunc(img.RepoTags, func(t string) bool { return t != noTag })
}

// dropReplaced removes the image that has just lost its tag. The engine
// refuses while a container or another image is based on it, and then it
// stays: not forced.
func (s *Store) dropReplaced(ctx context.Context, old Image) {
	if old.ID == "" || old.Origin == OriginForeign || len(old.Tags) > 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
	defer cancel()
	now, err := s.Inspect(ctx, old.ID)
	if err != nil || len(now.Tags) > 0 {
		return
	}
	_, _ = s.api.ImageRemove(ctx, old.ID, image.RemoveOptions{PruneChildren: true})
}
