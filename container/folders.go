package container

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/bulkhead-dev/sandbox"
)

// A Folder is a folder of an image whose content is asked for.
type Folder struct {
	Path string // absolute and clean
	Size int64  // bytes that the content may take in memory
	Own  bool   // the mode of the folder itself is asked for, too
}

// labelFolders marks the containers that ImageFolders makes. They never run.
const labelFolders = labelPrefix + "image-folders"

// strayFolders is the age from which such a container is one of a process that
// has ended.
const strayFolders = 10 * time.Minute

// ImageFolders writes what an image has in folders to w, as one tar archive
// with whole paths, and reports whether there is anything. Folders, files and
// links are in it, with permission and sticky bits and without owners. It reads
// them from a container that it makes, in which nothing is mounted, and removes
// again. It returns [sandbox.CodeValidation] for content larger than
// Folder.Size.
func (e *Engine) ImageFolders(ctx context.Context, image string, folders []Folder, w io.Writer) (any bool, err error) {
	const op = "read folders of image"
	ctx, done := context.WithTimeout(ctx, e.limit.Create)
	defer done()
	e.removeStrayFolders(ctx)
	r, err := e.api.ContainerCreate(ctx, &container.Config{
		Image: image, Entrypoint: []string{"/"}, Labels: map[string]string{labelFolders: "1"}, NetworkDisabled: true,
	}, &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}, nil, nil, "")
	if err != nil {
		return false, e.fail(ctx, op, image, err)
	}
	defer func() {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), e.limit.Change)
		defer done()
		err = errors.Join(err, e.Remove(clean, r.ID))
	}()
	out := tar.NewWriter(w)
	for _, f := range folders {
		content, _, err := e.api.CopyFromContainer(ctx, r.ID, f.Path+"/.")
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, e.fail(ctx, op, image, err)
		}
		found, err := f.copy(out, tar.NewReader(content))
		content.Close()
		if sandbox.CodeOf(err) == sandbox.CodeValidation {
			return false, err
		}
		if err != nil {
			return false, sandbox.Errorf(sandbox.CodeUnavailable, op, "%s of %s: %w", f.Path, image, err)
		}
		any = any || found
	}
	return any, out.Close()
}

// removeStrayFolders removes containers that other processes did not live to
// remove. What cannot be removed now is tried again next time.
func (e *Engine) removeStrayFolders(ctx context.Context) {
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelFolders))})
	if err != nil {
		return
	}
	for _, c := range list {
		if time.Since(time.Unix(c.Created, 0)) > strayFolders {
			_ = e.Remove(ctx, c.ID)
		}
	}
}

// page is what a file takes at least in a folder in memory.
const page = 4096

// copy copies the entries of one folder, whose names in the archive are relative
// to it.
func (f Folder) copy(out *tar.Writer, in *tar.Reader) (any bool, err error) {
	var size int64
	within := func(name string) string { return path.Join(f.Path, path.Clean("/"+name)) }
	for {
		h, err := in.Next()
		if err == io.EOF {
			return any, nil
		}
		if err != nil {
			return any, err
		}
		name := within(h.Name)
		entry := &tar.Header{Typeflag: h.Typeflag, Name: name[1:], Mode: h.Mode & 0o1777, ModTime: h.ModTime, Format: tar.FormatPAX}
		switch h.Typeflag {
		case tar.TypeDir:
			if name == f.Path && !f.Own {
				continue
			}
		case tar.TypeReg:
			entry.Size = h.Size
		case tar.TypeSymlink:
			entry.Linkname = h.Linkname
		case tar.TypeLink:
			entry.Linkname = within(h.Linkname)[1:]
		default: // devices, pipes and sockets
			continue
		}
		if size += (entry.Size + page - 1) / page * page; size > f.Size {
			return any, &sandbox.Error{
				Code: sandbox.CodeValidation, Op: "fill folder in memory", Field: "docker.tmpfs", Resource: f.Path,
				Message: fmt.Sprintf("the image has more in %s than the %d bytes that the folder in memory has there", f.Path, f.Size),
				Hint:    "give the folder a larger size in docker.tmpfs, or use an image with less in it",
			}
		}
		if err := out.WriteHeader(entry); err != nil {
			return any, err
		}
		if _, err := io.Copy(out, in); err != nil {
			return any, err
		}
		any = true
	}
}
