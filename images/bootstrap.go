package images

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/docker/docker/api/types/image"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Bootstrap makes a base image from the packages of the host's own
// distribution, without a registry, with the packages that the recipe of
// o.Image wants, and tags it with what it is, such as
// "sandbox-base:bookworm-bootstrap". An image that had the tag before is
// replaced. The host's package sources, proxies and certificates serve the
// making and are not in the image.
//
// It needs mmdebstrap, or debootstrap and root; CodeUnavailable otherwise.
func (s *Store) Bootstrap(ctx context.Context, o Options) (Image, error) {
	r, err := s.recipe("bootstrap image", o.Image)
	if err != nil {
		return Image{}, err
	}
	return s.bootstrap(ctx, r, o, false)
}

func (s *Store) bootstrap(ctx context.Context, r recipe, o Options, keep bool) (Image, error) {
	p, err := s.plan(r)
	if err != nil {
		return Image{}, err
	}
	return s.make(ctx, "bootstrap ", p.ref(), PhaseBootstrap, o, false, func(ctx context.Context, say reporter) error {
		old, err := s.Inspect(ctx, p.ref())
		if err != nil && !sandbox.IsNotFound(err) {
			return err
		}
		if keep && err == nil && old.Labels[labelPackages] == r.packages() {
			return nil
		}
		if err := s.bootstrapNow(ctx, p, say); err != nil {
			return err
		}
		s.dropReplaced(ctx, old)
		return nil
	})
}

// bootstrapTag bootstraps ref when that is what this host can make.
func (s *Store) bootstrapTag(ctx context.Context, r recipe, ref string, o Options) (Image, error) {
	p, err := s.plan(r)
	if err != nil {
		return Image{}, err
	}
	if ref != p.ref() {
		return Image{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "bootstrap image", Resource: ref,
			Message: "this host bootstraps " + p.ref() + ", not " + printable(ref), Hint: "use " + p.ref()}
	}
	return s.bootstrap(ctx, r, o, true)
}

// bootstrapNow streams the new root folder from the tool through the scrub
// into the engine; nothing of it is kept on the host's disk by us.
func (s *Store) bootstrapNow(ctx context.Context, p plan, say reporter) error {
	ctx, alive, cancel := s.work(ctx)
	defer cancel()
	say(Event{Phase: PhaseBootstrap, Text: "making a " + p.distro.id + " " + p.distro.suite + " base with " + p.toolName()})

	var out tail
	lines := func(line string) {
		alive()
		out.write(line + "\n")
		say(Event{Phase: PhaseBootstrap, Text: line})
	}
	toolErr, err := s.pour(ctx, p, lines, alive)
	switch {
	case toolErr == nil, ctx.Err() != nil && err != nil:
		return err
	case ctx.Err() != nil:
		return engineError(ctx, "bootstrap image", p.ref(), toolErr)
	}
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "bootstrap image", Resource: p.ref(),
		Message: p.toolName() + " failed", Hint: "see that `apt-get update` works on this host",
		Err: &stepError{output: out.String(), err: toolErr}}
}

// pour runs tool, scrub and import side by side. toolErr is set when the tool
// failed by itself and so caused the rest to fail.
func (s *Store) pour(ctx context.Context, p plan, lines func(string), alive func()) (toolErr, err error) {
	toolCtx, stopTool := context.WithCancel(ctx)
	defer stopTool()
	raw, rawW := io.Pipe()
	clean, cleanW := io.Pipe()
	made := make(chan error, 1)
	go func() {
		err := s.rootfs(toolCtx, p, lines, rawW)
		made <- err // before the stream ends, so that the cause is known first
		rawW.CloseWithError(orEOF(err))
	}()
	scrubbed := make(chan struct{})
	go func() {
		defer close(scrubbed)
		err := scrub(cleanW, raw, p.neutral, s.now())
		raw.CloseWithError(orEOF(err))
		cleanW.CloseWithError(orEOF(err))
	}()
	err = s.importTar(ctx, p, &pulse{r: clean, beat: alive})
	clean.CloseWithError(io.ErrClosedPipe)
	select {
	case toolErr = <-made:
	default: // the import failed first, so the output of the tool has no reader
		stopTool()
		<-made
	}
	<-scrubbed
	if toolErr == nil && err == nil {
		return nil, nil
	}
	// A tool that lost its reader is not the cause.
	if errors.Is(toolErr, io.ErrClosedPipe) {
		toolErr = nil
	}
	return toolErr, err
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

func (s *Store) importTar(ctx context.Context, p plan, r io.Reader) error {
	labels := map[string]string{}
	s.annotate(labels, p.ref(), p.distro.suite, "")
	var about []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		about = append(about, labelChange(key, labels[key]))
	}
	body, err := s.api.ImageImport(ctx, image.ImportSource{Source: r, SourceName: "-"}, p.ref(), image.ImportOptions{
		Message: "bootstrapped from packages of " + p.distro.id + " " + p.distro.suite,
		Changes: append([]string{
			`ENV PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"`,
			`CMD ["/bin/bash"]`,
			labelChange(labelKind, string(OriginBootstrap)),
			labelChange(labelBoot, p.toolName()+" "+p.distro.id+" "+p.distro.suite),
			labelChange(labelPackages, p.recipe.packages()),
		}, about...),
	})
	if err == nil {
		defer body.Close()
		err = follow(body, func(message) {})
	}
	if err != nil {
		return engineError(ctx, "import image", p.ref(), err)
	}
	return nil
}

// pulse reports life whenever bytes pass.
type pulse struct {
	r    io.Reader
	beat func()
}

func (p *pulse) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.beat()
	}
	return n, err
}
