package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/build"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Build builds o.Image, or else [DefaultImage], anew from the recipe in this
// program and moves its tag. The image that had the tag before is removed when nothing uses it.
//
// It is built on o.Base, or else on [BaseImage] when that is present, on a
// bootstrapped base with the right packages when one is present, on BaseImage
// pulled, and where no registry gives it, on a base bootstrapped now.
func (s *Store) Build(ctx context.Context, o Options) (Image, error) {
	r, err := s.recipe("build image", o.Image)
	if err != nil {
		return Image{}, err
	}
	return s.build(ctx, r, o, false)
}

func (s *Store) build(ctx context.Context, r recipe, o Options, keep bool) (Image, error) {
	return s.make(ctx, "build ", r.ref, PhaseBuild, o, keep, func(ctx context.Context, say reporter) error {
		old, err := s.Inspect(ctx, r.ref)
		if err != nil && !sandbox.IsNotFound(err) {
			return err
		}
		if err := s.buildNow(ctx, r, o.Base, say); err != nil {
			return err
		}
		s.dropReplaced(ctx, old)
		return nil
	})
}

// buildNow chooses a base and builds on it. When packages cannot be installed
// on a base from a registry, because the mirrors it names are out of reach,
// the host's own sources get their turn, and that is said.
func (s *Store) buildNow(ctx context.Context, r recipe, want string, say reporter) error {
	base, err := s.base(ctx, r, want, say)
	if err == nil {
		err = s.checkPlatform("build image", base)
	}
	if err != nil {
		return err
	}
	err = s.buildOn(ctx, r, base, say)
	if err == nil || want != "" || base.Origin == OriginBootstrap || !errors.As(err, new(*stepError)) {
		return err
	}
	say(Event{Phase: PhaseBuild, Text: "the build on " + base.Ref + " failed (" + firstLine(err) + "); using the host's package sources instead"})
	base, bootErr := s.bootstrap(ctx, r, Options{Progress: relay(say)}, true)
	if bootErr != nil {
		return errors.Join(err, bootErr)
	}
	return s.buildOn(ctx, r, base, say)
}

func (s *Store) buildOn(ctx context.Context, r recipe, base Image, say reporter) error {
	args := s.proxyArgs()
	args["BASE"] = &base.ID
	network := "host"
	if base.Labels[labelPackages] == r.packages() {
		network = "none" // everything is in the base
	}
	say(Event{Phase: PhaseBuild, Text: "building on " + base.Ref})
	suite := ""
	if made := strings.Fields(base.Labels[labelBoot]); len(made) > 0 { // tool, distribution and suite
		suite = made[len(made)-1]
	}
	labels := map[string]string{labelKind: string(r.origin), labelBaseID: base.ID, labelDigest: r.digest()}
	s.annotate(labels, r.ref, r.digest(), base.Ref)
	return s.runBuild(ctx, buildJob{
		op: "build image", ref: r.ref, phase: PhaseBuild, network: network,
		dockerfile: r.on(suite).dockerfile, files: r.files, args: args,
		labels: labels,
	}, say)
}

// buildJob is one run of the engine's builder.
type buildJob struct {
	op, ref    string
	phase      Phase
	network    string
	dockerfile string // with ARG BUILD, used in a label
	files      []file // beside it
	args       map[string]*string
	labels     map[string]string // of the finished image
}

// stepError is a failed instruction of a build.
type stepError struct {
	step   int    // counted from 1; 0 when none had begun
	output string // last lines, escaped
	err    error
}

func (e *stepError) Error() string {
	if e.output == "" {
		return e.err.Error()
	}
	return e.err.Error() + "\n" + e.output
}

func (e *stepError) Unwrap() error { return e.err }

// runBuild runs the classic builder, which every engine back to API 1.41 has
// in itself. A failed instruction is a *stepError inside the error. Whatever
// a failed or cancelled build made is removed.
func (s *Store) runBuild(ctx context.Context, job buildJob, say reporter) (err error) {
	id := s.newID()
	defer func() {
		if err != nil {
			s.sweep(ctx, id)
		}
	}()
	files, err := buildContext(job, s.now())
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, job.op, "pack the recipe: %w", err)
	}
	args := map[string]*string{"BUILD": &id}
	for k, v := range job.args {
		args[k] = v
	}
	work, alive, cancel := s.work(ctx)
	defer cancel()
	resp, err := s.api.ImageBuild(work, files, build.ImageBuildOptions{
		Version: build.BuilderV1, Dockerfile: "Dockerfile", Tags: []string{job.ref}, BuildArgs: args,
		Labels: job.labels, NetworkMode: job.network, Remove: true, ForceRemove: true,
	})
	if err != nil {
		return engineError(work, job.op, job.ref, err)
	}
	defer resp.Body.Close()
	return s.followBuild(work, job, resp.Body, alive, say)
}

func (s *Store) followBuild(ctx context.Context, job buildJob, body io.Reader, alive func(), say reporter) error {
	var out tail
	step, built := 0, false
	err := follow(body, func(m message) {
		alive()
		m.Stream = uncolour(m.Stream)
		if n := stepNumber(m.Stream); n == step+1 {
			step = n
			out.reset()
		} else {
			out.write(m.Stream)
		}
		built = built || m.Aux.ID != ""
		for _, line := range strings.Split(m.Stream, "\n") {
			if line = lastDrawn(line); line != "" && !chatter(line) {
				say(Event{Phase: job.phase, Text: clip(line, 120)})
			}
		}
	})
	var failed *streamError
	switch {
	case err == nil && !built:
		return sandbox.Errorf(sandbox.CodeUnavailable, job.op, "the build of %s broke off without a result", job.ref)
	case err == nil:
		return nil
	case errors.As(err, &failed) && ctx.Err() == nil:
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: job.op, Resource: job.ref,
			Message: "the build of " + job.ref + " failed", Hint: "`sandbox images bootstrap` uses the host's package sources",
			Err: &stepError{step: step, output: out.String(), err: failed}}
	}
	return withOutput(engineError(ctx, job.op, job.ref, err), job, out.String())
}

// withOutput adds the end of the output to the error of setup commands that were
// given up, because progress need not have shown it.
func withOutput(err error, job buildJob, output string) error {
	var e *sandbox.Error
	if job.phase != PhaseSetup || output == "" || !errors.As(err, &e) {
		return err
	}
	reported := *e
	if reported.Err == nil {
		reported.Err = errors.New("the setup commands did not end")
	}
	reported.Err = fmt.Errorf("%w; their last output:\n%s", reported.Err, output)
	return &reported
}

// uncolour takes off the red that the engine puts around what a command wrote
// to standard error. Colours of the command itself stay and are escaped.
func uncolour(text string) string {
	return strings.NewReplacer("\x1b[91m", "", "\x1b[0m", "").Replace(text)
}

// lastDrawn is what remains on the screen of a line that was redrawn with
// carriage returns.
func lastDrawn(line string) string {
	line = strings.TrimSpace(line)
	return strings.TrimSpace(line[strings.LastIndexByte(line, '\r')+1:])
}

// chatter is what the engine says about its own bookkeeping.
func chatter(line string) bool {
	return strings.HasPrefix(line, "---> ") || strings.HasPrefix(line, "Removing intermediate container ") ||
		strings.HasPrefix(line, "Step ") && strings.Contains(line, " : LABEL "+labelPrefix)
}

// stepNumber reads "Step 3/7 : RUN …"; 0 is any other text.
func stepNumber(text string) int {
	rest, ok := strings.CutPrefix(text, "Step ")
	if !ok {
		return 0
	}
	num, rest, ok := strings.Cut(rest, "/")
	if !ok || !strings.Contains(rest, " : ") {
		return 0
	}
	n, err := strconv.Atoi(num)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// buildContext is a tar stream that holds the recipe with its files and
// nothing else, so that no file of the host can end up in the image.
func buildContext(job buildJob, at time.Time) (io.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range append([]file{{"Dockerfile", job.dockerfile, 0o644}}, job.files...) {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, f.content); err != nil {
			return nil, err
		}
	}
	return &b, w.Close()
}

// proxyArgs hands the caller's proxies to the build. These arguments are
// known to every engine and leave no trace in the image or its history.
func (s *Store) proxyArgs() map[string]*string {
	args := map[string]*string{}
	for _, name := range proxyVariables() {
		if v := s.getenv(name); v != "" {
			args[name] = &v
		}
	}
	return args
}

func proxyVariables() []string {
	return []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
}

func firstLine(err error) string {
	var step *stepError
	if errors.As(err, &step) {
		err = step.err
	}
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return clip(line, 200)
}

// relay makes a Progress of a reporter.
func relay(say reporter) Progress { return relayed(say) }

type relayed reporter

func (r relayed) Report(e Event) {
	e.Done = false // the outer image is still being made
	r(e)
}
