package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// An optional is the value of a flag that may stand alone: --flag, or --flag=PATH.
type optional struct {
	value string
	given bool
}

// Set implements flag.Value. The library gives a flag that stands alone the value
// "true".
func (o *optional) Set(s string) error {
	if s == "" {
		return errors.New("it must not be empty")
	}
	if o.given = true; s != "true" {
		o.value = s
	}
	return nil
}

// String implements flag.Value.
func (o *optional) String() string { return o.value }

// IsBoolFlag reports that the flag may stand alone, as the library of flags asks.
func (o *optional) IsBoolFlag() bool { return true }

// projectFlags name a file of the project that says what its image is.
type projectFlags struct {
	dockerfile, devcontainer optional
}

func (f *projectFlags) flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "from-dockerfile", Usage: "build the image from the project's Dockerfile, or with =`PATH` from that one", Value: &f.dockerfile},
		&ucli.GenericFlag{Name: "devcontainer", Usage: "take image, variables and postCreateCommand from the project's devcontainer.json, or with =`PATH` from that one", Value: &f.devcontainer},
	}
}

// A project is what the files of a project say of its sandbox.
type project struct {
	root  string // folder of the project
	build *about.Project
	dev   config.Devcontainer
	file  string // the devcontainer.json, or empty
}

// project reads what the flags name; nil is nothing. Nothing outside of the
// folder of the project is read: that is the one of --workspace, else the one in
// which the command runs.
func (f *runFlags) project() (*project, error) {
	switch {
	case !f.dockerfile.given && !f.devcontainer.given:
		return nil, nil
	case f.dockerfile.given && f.devcontainer.given:
		return nil, usagef("run", "--from-dockerfile and --devcontainer both say what the image is; give one of them")
	case f.image.given:
		return nil, usagef("run", "--image and --from-dockerfile or --devcontainer both say what the image is; give one of them")
	}
	root, err := filepath.Abs(f.workspace.value) // of "" the current folder
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, projectProblem("--workspace", f.workspace.value, "the folder cannot be found", err)
	}
	p := &project{root: root}
	if f.dockerfile.given {
		return p, p.fromDockerfile(f.dockerfile.value)
	}
	return p, p.fromDevcontainer(f.devcontainer.value)
}

func projectProblem(field, resource, message string, err error) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "run", Field: field, Resource: resource, Message: message, Err: err}
}

// fromDockerfile takes the Dockerfile at path, or the one of the project. A person
// has named it, so it may lie anywhere; its folder is what the build gets, or the project where that holds it.
func (p *project) fromDockerfile(path string) error {
	const field = "--from-dockerfile"
	if path == "" {
		path = filepath.Join(p.root, "Dockerfile")
	}
	named, err := filepath.Abs(path)
	if err != nil {
		return projectProblem(field, path, "there is no Dockerfile", err)
	}
	if fi, err := os.Stat(named); err == nil && fi.IsDir() {
		named = filepath.Join(named, "Dockerfile")
	}
	if path, err = filepath.EvalSymlinks(named); err != nil {
		return projectProblem(field, named, "there is no Dockerfile", err)
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(named)); err != nil || filepath.Join(folder, filepath.Base(named)) != path {
		// The link is the project's, and would choose which folder the build gets.
		return &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "run", Field: field, Resource: named,
			Message: named + " is refused: it is a link to " + path, Hint: "name the file itself", Err: err,
		}
	}
	dir := filepath.Dir(path)
	if within(path, p.root) {
		dir = p.root
	}
	p.build = &about.Project{Dockerfile: path, Context: dir}
	return nil
}

// fromDevcontainer reads the devcontainer.json at path, or the one of the project.
func (p *project) fromDevcontainer(path string) error {
	const field = "--devcontainer"
	candidates := []string{path, filepath.Join(path, "devcontainer.json"), filepath.Join(path, ".devcontainer", "devcontainer.json"), filepath.Join(path, ".devcontainer.json")}
	if path == "" {
		candidates = []string{filepath.Join(p.root, ".devcontainer", "devcontainer.json"), filepath.Join(p.root, ".devcontainer.json")}
	}
	for _, c := range candidates {
		data, err := readSmall(c)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFile) {
			continue
		}
		if err == nil {
			p.file, err = filepath.Abs(c)
		}
		if err == nil {
			p.file, err = filepath.EvalSymlinks(p.file)
		}
		if err != nil {
			return projectProblem(field, c, "it cannot be read", err)
		}
		if p.dev, err = config.ParseDevcontainer(p.file, data); err != nil {
			return err
		}
		return p.devcontainerBuild()
	}
	return projectProblem(field, candidates[0], "there is no devcontainer.json", fs.ErrNotExist)
}

var errNoFile = errors.New("it is no file")

// readSmall reads a file that a person writes.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, errNoFile)
	}
	return io.ReadAll(io.LimitReader(f, maxImport))
}

// devcontainerBuild finds the Dockerfile and the context that a devcontainer.json
// names. The file is the project's own and untrusted: both must lie in the project.
func (p *project) devcontainerBuild() error {
	b := p.dev.Build
	if b == nil {
		return nil
	}
	dir := filepath.Dir(p.file)
	root := p.root
	if !within(p.file, root) { // of another project
		if root = dir; filepath.Base(root) == ".devcontainer" {
			root = filepath.Dir(root)
		}
	}
	paths := map[string]string{"build.context": filepath.Join(dir, b.Context)}
	paths["build.dockerfile"] = filepath.Join(dir, b.Dockerfile)
	for _, field := range slices.Sorted(maps.Keys(paths)) {
		real, err := filepath.EvalSymlinks(paths[field])
		if err != nil {
			return projectProblem(field, paths[field], "it cannot be found", err)
		}
		if real != root && !within(real, root) {
			return &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "run", Field: field, Resource: real,
				Message: fmt.Sprintf("%s is refused: it lies outside of the project %s, whose files the build gets", real, root), Hint: "keep the Dockerfile and its context inside the project",
			}
		}
		paths[field] = real
	}
	p.build = &about.Project{Dockerfile: paths["build.dockerfile"], Context: paths["build.context"], Args: b.Args, Target: b.Target}
	if !within(p.build.Dockerfile, p.build.Context) {
		p.build.Context = root // which holds both
	}
	return nil
}

// within reports whether path lies below dir.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// apply puts what the project says into the flags, and builds its image.
func (a *app) applyProject(ctx context.Context, p *project, f *runFlags) error {
	if !a.options().Host.Remote() { // a program without an engine's client hands over here, before anything is said
		if err := a.withImages(false, func(ImageStore, about.Options) error { return nil }); err != nil {
			return err
		}
	}
	for _, n := range p.dev.Notes {
		a.say("devcontainer.json: %s has no effect: %s", termsafe.Line(strings.TrimSpace(n.Path+" "+n.Value)), n.Why)
	}
	if len(p.dev.ForwardPorts) > 0 {
		var ports []string
		for _, n := range p.dev.ForwardPorts {
			ports = append(ports, strconv.Itoa(n))
		}
		a.say("devcontainer.json: forwardPorts: reach them while the sandbox exists with: sandbox port forward %s", strings.Join(ports, " "))
	}
	f.projectEnv = p.dev.ContainerEnv
	for _, name := range slices.Sorted(maps.Keys(p.dev.RemoteEnv)) {
		f.env.values = slices.Insert(f.env.values, 0, name+"="+p.dev.RemoteEnv[name]) // a flag comes later, and counts
	}
	if p.dev.Image != "" {
		return f.image.Set(p.dev.Image)
	}
	if p.build == nil {
		return nil
	}
	res, err := a.resolved(f)
	if err != nil {
		return err
	}
	if res.Provider == "local" || a.options().Host.Remote() {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "run", Field: "--from-dockerfile", Resource: p.build.Dockerfile,
			Message: "images are built by an engine of this machine, which sandboxes of the provider " + res.Provider + " or of a server do not use", Hint: "use --provider docker, without --server",
		}
	}
	p.build.Network, p.build.Timeout, p.build.Size = res.Docker.BuildNetwork, time.Duration(res.Docker.BuildTimeout), int64(res.Docker.BuildSize)
	p.build.Memory, p.build.CPUs = int64(res.Docker.Memory), res.Docker.CPUs
	return a.withImages(false, func(s ImageStore, o about.Options) error {
		img, err := s.BuildProject(ctx, *p.build, o)
		if err != nil {
			return err
		}
		return f.image.Set(img.Ref)
	})
}

// resolved are the settings of the call that f are the flags of.
func (a *app) resolved(f *runFlags) (config.Resolved, error) {
	s, err := a.Backend.Settings(a.options())
	if err != nil {
		return config.Resolved{}, err
	}
	layer, err := f.layer(a.globals)
	if err != nil {
		return config.Resolved{}, err
	}
	return config.Resolve(s, a.globals.who(), layer)
}

// postCreate is the command that runs the lines once in a sandbox. A file in the home
// says that they have run: where that lies in memory and the sandbox was started
// anew, they run again, since what they put there is gone too.
func postCreate(lines []string) []string {
	text := strings.Join(lines, "\n")
	sum := sha256.Sum256([]byte(text))
	script := `done="$HOME/.devcontainer-` + hex.EncodeToString(sum[:8]) + `"; [ -e "$done" ] && exit 0` + "\n" +
		"cd " + sandbox.WorkspaceDir + " || exit\n"
	for _, l := range lines {
		script += "( " + l + "\n) || exit\n"
	}
	return []string{"/bin/sh", "-c", script + `: >"$done"`}
}

// runPostCreate runs the postCreateCommand of p in the sandbox of req, and with an
// error removes the sandbox where the command itself would have.
func (a *app) runPostCreate(ctx context.Context, p *project, req manager.Request) error {
	first := req
	first.Command.Args, first.Remove, first.Ask, first.Again = postCreate(p.dev.PostCreate), false, false, nil
	first.Command.Stdout, first.Command.Stderr = a.commandOutput(a.Stderr), a.commandOutput(a.Stderr)
	return a.useManager(a.options(), func(m Manager) error {
		out, err := m.Run(ctx, first)
		if err == nil && out.Exit.Code == 0 && !out.TimedOut {
			return nil
		}
		if err == nil {
			err = &sandbox.Error{
				Code: sandbox.CodeExecution, Op: "run", Field: "postCreateCommand", Resource: p.file,
				Message: fmt.Sprintf("the command of devcontainer.json ended with status %d, so the command was not run", out.Exit.Code),
			}
		}
		if req.Remove {
			last := first
			last.Command.Args, last.Remove = []string{"true"}, true
			_, gone := m.Run(context.WithoutCancel(ctx), last)
			err = errors.Join(err, gone)
		}
		return err
	})
}
