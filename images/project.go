package images

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

const (
	opProject   = "build image of a project"
	projectRepo = "sandbox-project" // tagged with a digest of all that goes in

	// sizeEvery is the time between two looks at what a build has written.
	sizeEvery = 2 * time.Second
)

// errTooLarge ends a build that has written more than it may.
var errTooLarge = errors.New("it has written more than docker.buildSize")

// BuildProject builds the image of a project's Dockerfile and returns it. The image
// is cached by the Dockerfile, the files of the context, the arguments and the
// identities of the base images, under a tag of its own, and it takes the
// place of the one that was built from the same Dockerfile before.
//
// The Dockerfile is untrusted: its instructions run as root in containers of the
// engine, with the engine's default seccomp filter and capabilities, on the network
// p.Network, with p.Memory bytes and p.CPUs processors, and with no file of the host
// but a copy of the context. What makes the engine itself fetch something, with
// the network of the host, is refused: ADD of an address, and triggers (ONBUILD) of
// base images. A build that takes longer than p.Timeout or writes more than p.Size
// bytes is ended, and what it made is removed.
//
// Errors: [sandbox.CodeValidation] for a Dockerfile or context that cannot be used,
// [sandbox.CodeCapabilityBlocked] for what is refused, [sandbox.CodeExecution] for
// an instruction that failed.
func (s *Store) BuildProject(ctx context.Context, p about.Project, o Options) (Image, error) {
	packed, err := packProject(ctx, p)
	if err != nil {
		return Image{}, err
	}
	defer packed.remove()
	bases, err := s.projectBases(ctx, p, packed.dockerfile, o)
	if err != nil {
		return Image{}, err
	}
	key := projectKey(p, packed, bases)
	ref := projectRepo + ":" + key[:16]
	valid := func(img Image) bool { return img.Labels[labelProject] == key }
	img, err := s.Inspect(ctx, ref)
	if err == nil && valid(img) || err != nil && !sandbox.IsNotFound(err) {
		return img, err
	}
	o.Base = ""
	return s.make(ctx, "project ", ref, PhaseBuild, o, false, func(ctx context.Context, say reporter) error {
		img, err := s.Inspect(ctx, ref)
		if err == nil && valid(img) || err != nil && !sandbox.IsNotFound(err) {
			return err
		}
		if err := s.buildProject(ctx, p, packed, ref, key, say); err != nil {
			return err
		}
		s.dropOlder(ctx, p, ref)
		return nil
	})
}

// projectKey is the digest that the image of a project is cached by.
func projectKey(p about.Project, packed *packedProject, bases []string) string {
	text, _ := json.Marshal([]any{"project-1", packed.digest, packed.name, p.Target, p.Args, bases}) // strings always encode
	return digest(string(text))
}

// projectBases makes or pulls the images that the stages are built on, and returns
// their identities. The engine would pull them by itself; that here are checked
// first: their platform, and that they bring no triggers.
func (s *Store) projectBases(ctx context.Context, p about.Project, dockerfile string, o Options) ([]string, error) {
	refs, err := readDockerfile(dockerfile, p.Args)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, ref := range refs {
		img, err := s.Ensure(ctx, ref, Options{Progress: o.Progress})
		if err == nil {
			err = s.checkPlatform(opProject, img)
		}
		if err != nil {
			return nil, err
		}
		if err := s.checkTriggers(ctx, ref, img.ID); err != nil {
			return nil, err
		}
		ids = append(ids, img.ID)
	}
	return ids, nil
}

// checkTriggers refuses a base image with triggers: they are instructions that
// are not in the Dockerfile, where they would be judged.
func (s *Store) checkTriggers(ctx context.Context, ref, id string) error {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	r, err := s.api.ImageInspect(ctx, id)
	if err != nil {
		return engineError(ctx, opProject, ref, err)
	}
	if r.Config != nil && len(r.Config.OnBuild) > 0 {
		return refusedLine(0, "FROM "+ref, "the image has triggers (ONBUILD), which run instructions that the Dockerfile does not show", "build on an image without them")
	}
	return nil
}

// A projectBuild is a build under way: what it has made, as the engine reports it.
type projectBuild struct {
	mu         sync.Mutex
	containers []string
	layers     []string // not those that were there before
	cached     bool     // the next one was
}

// note reads what the engine says about its own bookkeeping.
func (b *projectBuild) note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, ok := strings.CutPrefix(line, "---> Running in "); ok {
		b.containers = append(b.containers, strings.TrimSpace(id))
	} else if id, ok := strings.CutPrefix(line, "---> "); ok && id == "Using cache" {
		b.cached = true
	} else if ok && !strings.Contains(id, " ") {
		if !b.cached {
			b.layers = append(b.layers, id)
		}
		b.cached = false
	}
}

// last returns the container that runs now, or "".
func (b *projectBuild) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.containers) == 0 {
		return ""
	}
	return b.containers[len(b.containers)-1]
}

func (s *Store) buildProject(ctx context.Context, p about.Project, packed *packedProject, ref, key string, say reporter) (err error) {
	labels := map[string]string{labelKind: string(OriginProject), labelProject: key, labelSource: digest(p.Dockerfile)}
	s.annotate(labels, ref, key, "")
	args := s.proxyArgs()
	if p.Network == "none" {
		args = map[string]*string{} // no proxy is reached
	}
	for name, value := range p.Args {
		args[name] = &value
	}
	work, alive, cancel := watch(ctx, cmp.Or(p.Timeout, s.cfg.Timeouts.Operation), cmp.Or(p.Timeout, s.cfg.Timeouts.Idle))
	defer cancel()
	work, abort := context.WithCancelCause(work)
	defer abort(nil)
	var b projectBuild
	defer func() {
		if err != nil {
			s.sweepProject(ctx, &b)
		}
	}()
	say(Event{Phase: PhaseBuild, Text: "building " + filepath.Base(p.Dockerfile) + " on the network " + p.Network})
	resp, err := s.api.ImageBuild(work, packed.open(), build.ImageBuildOptions{
		Version: build.BuilderV1, Dockerfile: packed.name, Tags: []string{ref}, BuildArgs: args, Target: p.Target, Labels: labels,
		NetworkMode: p.Network, Memory: p.Memory, MemorySwap: p.Memory, CPUPeriod: 100000, CPUQuota: int64(p.CPUs * 100000),
		Ulimits: []*container.Ulimit{{Name: "core"}, {Name: "fsize", Soft: p.Size, Hard: p.Size}}, Remove: true, ForceRemove: true,
	})
	if err != nil {
		return engineError(work, opProject, ref, err)
	}
	defer resp.Body.Close()
	done := make(chan struct{})
	var measuring sync.WaitGroup
	measuring.Go(func() { s.boundProject(work, &b, p.Size, abort, done) })
	err = s.followProject(work, ref, resp.Body, &b, alive, say)
	close(done)
	measuring.Wait()
	if errors.Is(context.Cause(work), errTooLarge) {
		return tooLarge(p, "the build", err)
	}
	if err != nil {
		return err
	}
	img, err := s.Inspect(ctx, ref)
	if err == nil && img.Size > p.Size {
		_, _ = s.api.ImageRemove(context.WithoutCancel(ctx), ref, image.RemoveOptions{PruneChildren: true})
		err = tooLarge(p, fmt.Sprintf("the image has %d bytes", img.Size), nil)
	}
	return err
}

func tooLarge(p about.Project, what string, err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeExecution, Op: opProject, Field: "docker.buildSize", Resource: p.Dockerfile,
		Message: fmt.Sprintf("%s is larger than the %d bytes that are allowed", what, p.Size), Hint: "raise docker.buildSize, or build less", Err: err,
	}
}

func (s *Store) followProject(ctx context.Context, ref string, body io.Reader, b *projectBuild, alive func(), say reporter) error {
	var out tail
	built := false
	err := follow(body, func(m message) {
		alive()
		m.Stream = uncolour(m.Stream)
		built = built || m.Aux.ID != ""
		out.write(m.Stream)
		for _, line := range strings.Split(m.Stream, "\n") {
			b.note(strings.TrimSpace(line))
			if line = lastDrawn(line); line != "" && !chatter(line) {
				say(Event{Phase: PhaseBuild, Text: clip(line, 120)})
			}
		}
	})
	var failed *streamError
	switch {
	case err == nil && !built:
		return sandbox.Errorf(sandbox.CodeUnavailable, opProject, "the build of %s broke off without a result", ref)
	case err == nil:
		return nil
	case errors.As(err, &failed) && ctx.Err() == nil:
		return &sandbox.Error{
			Code: sandbox.CodeExecution, Op: opProject, Field: "--from-dockerfile", Resource: ref, Message: "the build failed",
			Hint: "an instruction that needs a network has one with docker.buildNetwork", Err: &stepError{output: out.String(), err: failed},
		}
	}
	return engineError(ctx, opProject, ref, err)
}

// boundProject ends the build when the container that runs now has written more
// than size bytes, which it looks at every few seconds.
func (s *Store) boundProject(ctx context.Context, b *projectBuild, size int64, abort context.CancelCauseFunc, done <-chan struct{}) {
	tick := time.NewTicker(sizeEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := b.last()
		if id == "" {
			continue
		}
		call, cancel := s.callContext(ctx)
		list, err := s.api.ContainerList(call, container.ListOptions{All: true, Size: true, Filters: filters.NewArgs(filters.Arg("id", id))})
		cancel()
		if err != nil {
			continue // it is over, or the next look finds out
		}
		for _, c := range list {
			if c.SizeRw > size {
				abort(errTooLarge)
				return
			}
		}
	}
}

// sweepProject removes what a failed build has made: its containers, and its layers
// from the last to the first. One that something else is built on stays.
func (s *Store) sweepProject(ctx context.Context, b *projectBuild) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.containers {
		_ = s.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	for _, id := range slices.Backward(b.layers) {
		img, err := s.Inspect(ctx, id)
		if err != nil || len(img.Tags) > 0 {
			continue // a base, or removed with another layer
		}
		_, _ = s.api.ImageRemove(ctx, id, image.RemoveOptions{}) // its parents may be those of another build
	}
}

// dropOlder removes images that were built from the same Dockerfile before. The
// engine refuses while a container uses one, and then it stays.
func (s *Store) dropOlder(ctx context.Context, p about.Project, ref string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
	defer cancel()
	list, err := s.List(ctx)
	if err != nil {
		return
	}
	for _, img := range list {
		if img.Origin == OriginProject && img.Labels[labelSource] == digest(p.Dockerfile) && !slices.Contains(img.Tags, ref) {
			_, _ = s.api.ImageRemove(ctx, img.ID, image.RemoveOptions{PruneChildren: true})
		}
	}
}

// Prune removes the images of projects and the layers of docker.setup that no
// container uses, and returns those that it removed.
func (s *Store) Prune(ctx context.Context) ([]Image, error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	call, cancel := s.callContext(ctx)
	defer cancel()
	boxes, err := s.api.ContainerList(call, container.ListOptions{All: true})
	if err != nil {
		return nil, engineError(call, "prune images", "", err)
	}
	used := map[string]bool{}
	for _, c := range boxes {
		used[c.ImageID] = true
	}
	var out []Image
	for _, img := range list {
		if img.Origin != OriginProject && img.Origin != OriginSetup || used[img.ID] {
			continue
		}
		// By its name: an image that another one is built on only loses it.
		if _, err := s.api.ImageRemove(call, img.Ref, image.RemoveOptions{PruneChildren: true}); err == nil {
			out = append(out, img)
		}
	}
	return out, nil
}

// A packedProject is the context of a build in a temporary file.
type packedProject struct {
	file       *os.File // which has no name any more, so that nothing is left of it
	size       int64
	name       string // of the Dockerfile in it
	dockerfile string // its text
	digest     string // of names, modes and contents
}

func (p *packedProject) open() io.Reader { return io.NewSectionReader(p.file, 0, p.size) }

func (p *packedProject) remove() { _ = p.file.Close() }
