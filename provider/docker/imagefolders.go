package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// imageArchive is the file in the folder of a guest's socket from which the
// guest fills folders in memory, each time that it starts.
const imageArchive = "image.tar"

// placeImageFolders puts what the image of s has in folders in memory where the
// guest finds it. The folder was open to code inside: nothing of it is followed
// or kept.
func (p *Provider) placeImageFolders(ctx context.Context, s sandbox.Spec) error {
	const op = "fill folders in memory"
	dir, folders := socketDir(s), imageFolders(s)
	if volumes := slices.DeleteFunc(slices.Clone(folders), func(f container.Folder) bool { return !f.Own }); dir == "" && len(volumes) > 0 {
		p.opts.Warn(s.Name, "weaker here: the runtime "+s.Runtime+" shares no folder with the guest, so volumes of the image begin empty: "+volumes[0].Path)
	}
	if p.opts.Sockets == nil || dir == "" || len(folders) == 0 {
		return nil
	}
	archive, forget, err := p.archive(ctx, s.ImageID, folders)
	if err != nil {
		return err
	}
	defer forget()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return statedir.Unavailable(op, dir, err)
	}
	defer root.Close()
	if err := root.RemoveAll(imageArchive); err != nil {
		return statedir.Unavailable(op, dir, err)
	}
	from, err := os.Open(archive)
	if err != nil {
		return statedir.Unavailable(op, archive, err)
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || info.Size() == 0 {
		return statedir.Unavailable(op, archive, err)
	}
	to, err := root.OpenFile(imageArchive, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return statedir.Unavailable(op, dir, err)
	}
	_, err = io.Copy(to, from)
	return statedir.Unavailable(op, dir, errors.Join(err, to.Chmod(0o644), to.Close()))
}

// imageFolders are the folders of s that begin with what the image has there.
func imageFolders(s sandbox.Spec) []container.Folder {
	var out []container.Folder
	for _, t := range s.Tmpfs {
		if t.Image != "" {
			out = append(out, container.Folder{Path: t.Target, Size: t.Size, Own: t.Image == sandbox.ImageVolume})
		}
	}
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleHome {
			out = append(out, container.Folder{Path: m.Target, Size: m.Size})
		}
	}
	return out
}

// archiveAge is how long an archive is kept of an image that may be gone.
const archiveAge = 30 * 24 * time.Hour

// archive returns a file with what an image has in folders: empty, or a tar
// archive. An image never changes, so it is made once and kept in the folder
// Options.Images, where there is one. The caller calls forget when he has read it.
func (p *Provider) archive(ctx context.Context, image string, folders []container.Folder) (file string, forget func(), err error) {
	const op = "read folders of image"
	dir := p.opts.Images
	forget = func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "sandbox-image-"); err != nil {
			return "", nil, statedir.Unavailable(op, os.TempDir(), err)
		}
		forget = func() { os.RemoveAll(dir) }
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, statedir.Unavailable(op, dir, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v", image, folders))
	file = filepath.Join(dir, hex.EncodeToString(sum[:])+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, forget, nil
	}
	removeOld(dir, p.opts.Now().Add(-archiveAge))
	if err := p.makeArchive(ctx, file, image, folders); err != nil {
		forget()
		return "", nil, err
	}
	return file, forget, nil
}

// makeArchive makes the file, which has its name once it is complete.
func (p *Provider) makeArchive(ctx context.Context, file, image string, folders []container.Folder) error {
	const op = "read folders of image"
	out, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return statedir.Unavailable(op, file, err)
	}
	defer os.Remove(out.Name()) // gone, once it has its name
	defer out.Close()
	found, err := p.engine.ImageFolders(ctx, image, folders, out)
	if err != nil {
		return err
	}
	if !found {
		err = out.Truncate(0)
	}
	return statedir.Unavailable(op, file, errors.Join(err, os.Rename(out.Name(), file)))
}

// removeOld removes archives, and what was not completed, from before a time.
// They are made anew when they are asked for.
func removeOld(dir string, before time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
