package images

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

const (
	opRoots = "read the image's root certificates"

	maxRoots = 16 << 20 // bytes of a file of root certificates
	maxHops  = 8        // links that lead to one

	readerAge = 10 * time.Minute // beyond which a container that files are read from was left behind
)

// errNoFile says that an image has no file at a path.
var errNoFile = errors.New("the image has no such file")

// Environment returns the variables that the image id sets, in one engine call.
func (s *Store) Environment(ctx context.Context, id string) (map[string]string, error) {
	const op = "inspect image"
	if err := checkRef(op, id); err != nil {
		return nil, err
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	r, err := s.api.ImageInspect(ctx, id)
	if err != nil {
		return nil, engineError(ctx, op, id, err)
	}
	env := map[string]string{}
	if r.Config != nil {
		for _, kv := range r.Config.Env {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
	}
	return env, nil
}

// Program returns what a container of the image id runs, in one engine call.
func (s *Store) Program(ctx context.Context, id string) (p about.Program, err error) {
	const op = "inspect image"
	if err := checkRef(op, id); err != nil {
		return p, err
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	r, err := s.api.ImageInspect(ctx, id)
	if err != nil {
		return p, engineError(ctx, op, id, err)
	}
	if r.Config == nil {
		return p, nil
	}
	p.Args = slices.Concat([]string(r.Config.Entrypoint), []string(r.Config.Cmd))
	p.Dir = r.Config.WorkingDir
	p.Env = map[string]string{}
	for _, kv := range r.Config.Env {
		name, value, _ := strings.Cut(kv, "=")
		p.Env[name] = value
	}
	for port := range r.Config.ExposedPorts {
		number, protocol, _ := strings.Cut(string(port), "/")
		if n, err := strconv.Atoi(number); err == nil && (protocol == "" || protocol == "tcp") {
			p.Ports = append(p.Ports, n)
		}
	}
	slices.Sort(p.Ports)
	if h := r.Config.Healthcheck; h != nil && len(h.Test) > 1 {
		switch h.Test[0] {
		case "CMD":
			p.Health = slices.Clone(h.Test[1:])
		case "CMD-SHELL":
			p.Health = []string{"/bin/sh", "-c", h.Test[1]}
		}
	}
	return p, nil
}

// File returns the content of the first of paths that is a file with content in
// the image id, and nil where none is. Links are followed inside the image.
//
// An engine gives files out of containers alone, so one is made of the image,
// which is never started, and removed. It carries a label by which the next
// call removes what a call that was killed has left.
func (s *Store) File(ctx context.Context, id string, paths []string) ([]byte, error) {
	if err := checkRef(opRoots, id); err != nil {
		return nil, err
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	s.sweepReaders(ctx)
	box, err := s.api.ContainerCreate(ctx, &container.Config{
		Image: id, Entrypoint: []string{"/nothing"}, Cmd: []string{}, NetworkDisabled: true,
		Labels: map[string]string{labelReader: s.now().UTC().Format(readerTime)},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return nil, engineError(ctx, opRoots, id, err)
	}
	defer s.removeReader(ctx, box.ID)
	for _, p := range paths {
		data, err := s.fileIn(ctx, box.ID, p)
		if errors.Is(err, errNoFile) || err == nil && len(data) == 0 {
			continue
		}
		return data, engineError(ctx, opRoots, id, err)
	}
	return nil, nil
}

// fileIn reads the file at p in a container.
func (s *Store) fileIn(ctx context.Context, box, p string) ([]byte, error) {
	for range maxHops {
		stream, stat, err := s.api.CopyFromContainer(ctx, box, p)
		if cerrdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "too many links") {
			return nil, errNoFile
		}
		if err != nil {
			return nil, err
		}
		data, target, err := oneFile(stream)
		stream.Close()
		switch {
		case err != nil || target == "":
			return data, err
		case path.IsAbs(stat.LinkTarget): // resolved by the engine, in the container
			p = stat.LinkTarget
		case path.IsAbs(target):
			p = target
		default:
			p = path.Join(path.Dir(p), target)
		}
	}
	return nil, errNoFile // a loop of links
}

// oneFile reads an archive whose first entry is a file, or a link, whose target
// it returns.
func oneFile(stream io.Reader) (data []byte, target string, err error) {
	t := tar.NewReader(stream)
	h, err := t.Next()
	if err != nil {
		return nil, "", err
	}
	switch {
	case h.Typeflag == tar.TypeSymlink:
		return nil, h.Linkname, nil
	case h.Typeflag != tar.TypeReg:
		return nil, "", errNoFile
	case h.Size > maxRoots:
		return nil, "", sandbox.Errorf(sandbox.CodeUnavailable, opRoots, "the file %s has %d bytes; %d are read", printable(h.Name), h.Size, maxRoots)
	}
	data, err = io.ReadAll(t)
	return data, "", err
}

// readerTime is how the label of a container that files are read from tells when
// it was made.
const readerTime = "2006-01-02T15:04:05Z"

func (s *Store) removeReader(ctx context.Context, box string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
	defer cancel()
	_ = s.api.ContainerRemove(ctx, box, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

// sweepReaders removes containers that calls have left which ended before they
// could. Best effort: the next call tries again.
func (s *Store) sweepReaders(ctx context.Context) {
	left, err := s.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelReader))})
	if err != nil {
		return
	}
	for _, c := range left {
		made, err := time.Parse(readerTime, c.Labels[labelReader])
		if err == nil && s.now().Sub(made) > readerAge && c.State == container.StateCreated {
			s.removeReader(ctx, c.ID)
		}
	}
}
