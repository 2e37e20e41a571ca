package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	id, err := e.createOf(ctx, image)
	if err != nil {
		return false, e.fail(ctx, op, image, err)
	}
	defer func() {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), e.limit.Change)
		defer done()
		err = errors.Join(err, e.Remove(clean, id))
	}()
	out := tar.NewWriter(w)
	for _, f := range folders {
		content, stat, err := e.api.CopyFromContainer(ctx, id, f.Path+"/.")
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, e.fail(ctx, op, image, err)
		}
		whole := &wholeArchive{r: content}
		found, err := f.copy(out, tar.NewReader(whole), stat)
		if err == nil && !whole.ended() {
			err = errors.New("the engine's archive of it breaks off; Podman's do at a named pipe")
		}
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

// createOf makes a container of an image that never runs, and returns its ID. Podman
// fills the volumes of an image when a container starts, and until then an archive of
// one is empty: there the container has the folders of the image in their place.
func (e *Engine) createOf(ctx context.Context, image string) (string, error) {
	labels := map[string]string{labelFolders: "1"}
	has, err := e.Posture(ctx)
	if err != nil {
		return "", err
	}
	if has.Podman {
		id, _, err := e.postLibpod(ctx, libpodFolders{
			Image: image, Entrypoint: []string{"/"}, Labels: labels, NetNS: libpodNamespace{Mode: "none"}, Volumes: "ignore",
		})
		return id, err
	}
	r, err := e.api.ContainerCreate(ctx, &container.Config{Image: image, Entrypoint: []string{"/"}, Labels: labels, NetworkDisabled: true},
		&container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}, nil, nil, "")
	return r.ID, err
}

// A libpodFolders is a container of which only the files are read.
type libpodFolders struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint"`
	Labels     map[string]string `json:"labels"`
	NetNS      libpodNamespace   `json:"netns"`
	Volumes    string            `json:"image_volume_mode"`
}

// A wholeArchive is a tar archive that knows whether it was read up to the block of
// zeros that ends it: a reader of archives takes one that breaks off between two files
// for one that has ended.
type wholeArchive struct {
	r     io.Reader
	zeros int // at the end of what was read
}

func (w *wholeArchive) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	rest := bytes.TrimRight(p[:n], "\x00")
	if len(rest) > 0 {
		w.zeros = 0
	}
	w.zeros += n - len(rest)
	return n, err
}

func (w *wholeArchive) ended() bool { return w.zeros >= 512 }

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
// to it. The folder's own mode is that of stat: Podman's archives have no entry for it.
func (f Folder) copy(out *tar.Writer, in *tar.Reader, stat container.PathStat) (any bool, err error) {
	var size int64
	self := f.Own && stat.Mode.IsDir()
	if self {
		mode := int64(stat.Mode.Perm())
		if stat.Mode&fs.ModeSticky != 0 {
			mode |= 0o1000
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.Path[1:], Mode: mode, ModTime: stat.Mtime, Format: tar.FormatPAX}); err != nil {
			return false, err
		}
		any = true
	}
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
			if name == f.Path && (self || !f.Own) {
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
