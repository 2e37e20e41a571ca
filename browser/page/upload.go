package page

import (
	"context"
	"io"
	"path"
	"strconv"

	"github.com/chromedp/cdproto/dom"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxUploads is how many files one upload may have.
const maxUploads = 32

// Upload implements [browser.Writer]. The files are copied into the container
// first and stay there until the session ends.
func (s *session) Upload(ctx context.Context, selector string, files []string) error {
	if !s.rights.Write {
		return denied("upload")
	}
	if len(files) == 0 || len(files) > maxUploads {
		return invalid("files", "from 1 to "+count(maxUploads)+" files can be uploaded at once")
	}
	names := make([]string, len(files))
	for i, f := range files {
		name, err := network.File(f)
		if err != nil {
			return err
		}
		names[i] = name
	}
	place, err := s.container.Workspace(ctx)
	if err != nil {
		return err
	}
	return s.act(ctx, maxWait, func(ctx context.Context, t *tab) error {
		return t.lead(ctx, func() error { return t.upload(ctx, place, selector, names) })
	})
}

func (t *tab) upload(ctx context.Context, place browser.Workspace, selector string, files []string) error {
	el, err := t.element(ctx, selector)
	if err != nil {
		return err
	}
	var takes int
	if err := t.on(ctx, el, &takes, "", `
		if (!(this instanceof HTMLInputElement) || of(HTMLInputElement, 'type').call(this) !== 'file' || of(HTMLInputElement, 'disabled').call(this)) return 0;
		if (of(HTMLInputElement, 'webkitdirectory').call(this)) return 0;
		return of(HTMLInputElement, 'multiple').call(this) ? 2 : 1`); err != nil {
		return err
	}
	switch {
	case takes == 0:
		return failed("the element is no field for files")
	case takes == 1 && len(files) > 1:
		return invalid("files", "the field takes one file")
	}
	folder, err := t.session.makeFolder(ctx)
	if err != nil {
		return err
	}
	room := t.session.settings.Limits.TransferBytes
	inside := make([]string, len(files))
	for i, f := range files {
		// Each file has a folder of its own, so that the page sees its name.
		inside[i] = path.Join(folder, strconv.Itoa(i), cleanName(path.Base(f)))
		n, err := t.session.copyIn(ctx, place.Dir, f, inside[i], room)
		if err != nil {
			return err
		}
		room -= n
	}
	_, err = call(ctx, t, dom.SetFileInputFiles, dom.SetFileInputFilesParams{ObjectID: el, Files: inside})
	return err
}

// copyIn copies a file of the workspace to a path inside, and returns its
// size, which is at most room.
func (s *session) copyIn(ctx context.Context, dir, file, to string, room int64) (int64, error) {
	f, size, err := openPlain(dir, file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	limit := s.settings.Limits.TransferBytes
	tooMuch := beyond("transferBytes", "the files are larger than "+count(limit)+" bytes")
	if size > room {
		return 0, tooMuch
	}
	if err := s.transfer(ctx, browser.Transfer{Upload: true, Bytes: size}); err != nil {
		return 0, err
	}
	if s.rights.Transfer != nil {
		room = size // the size that was permitted, and no bytes added since
	}
	from := &io.LimitedReader{R: f, N: room + 1} // the file may grow
	const script = `umask 077 && mkdir -p -- "$1" && exec cat > "$1/$2"`
	if err := s.inside(ctx, from, nil, "sh", "-c", script, "sh", path.Dir(to), path.Base(to)); err != nil {
		return 0, err
	}
	if from.N <= 0 {
		return 0, tooMuch
	}
	return room + 1 - from.N, nil
}
