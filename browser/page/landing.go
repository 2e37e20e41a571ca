package page

import (
	"context"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/browser"
)

// A landing is the workspace folder of a download.
type landing struct {
	root  *os.Root
	name  string // of the folder, relative
	place browser.Workspace
}

// openFolder opens a folder of the workspace without following links, and
// creates missing parts of it.
func openFolder(place browser.Workspace, folder string) (*landing, error) {
	root, _, err := folderOf(place.Dir, "x")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(folder, "/") {
		if part == "" {
			continue
		}
		made := root.Mkdir(part, 0o755) == nil
		below, err := enter(root, part, folder)
		root.Close()
		if err != nil {
			return nil, err
		}
		root = below
		if !made {
			continue
		}
		// Use the open folder: its name may refer to another one by now.
		if err := root.Chown(".", place.UID, place.GID); err != nil {
			root.Close()
			return nil, failed("the folder cannot be given to who owns the workspace")
		}
	}
	return &landing{root: root, name: folder, place: place}, nil
}

func (l *landing) close() { l.root.Close() }

// maxTwins is the maximum number of files whose names differ only by a
// counter.
const maxTwins = 1000

// take creates a new file of that name, with a counter if the name is taken,
// and has fill write at most limit bytes to it and to sum. It returns the path
// in the workspace and the size. If fill fails, the file is removed.
func (l *landing) take(ctx context.Context, name string, limit int64, sum hash.Hash, fill func(*bounded) error) (string, int64, error) {
	f, name, err := l.create(name)
	if err != nil {
		return "", 0, err
	}
	w := &bounded{to: io.MultiWriter(f, sum), room: limit}
	err = fill(w)
	switch {
	case w.over:
		err = beyond("transferBytes", "the download is larger than "+count(limit)+" bytes")
	case err == nil && ctx.Err() != nil:
		err = ctx.Err()
	case err == nil:
		err = f.Chown(l.place.UID, l.place.GID)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = l.root.Remove(name)
		return "", 0, err
	}
	return path.Join(l.name, name), limit - w.room, nil
}

// create creates a file that did not exist.
func (l *landing) create(name string) (*os.File, string, error) {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := range maxTwins {
		if n > 0 {
			name = stem + " (" + strconv.Itoa(n) + ")" + ext
		}
		f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		switch {
		case err == nil:
			return f, name, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, "", failed("the workspace takes no file " + shown(name))
		}
	}
	return nil, "", failed("the workspace has too many files like " + shown(stem+ext))
}

// A bounded writer accepts a limited number of bytes and refuses more.
type bounded struct {
	to   io.Writer
	room int64
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.room {
		b.over = true
		return 0, failed("it is too large")
	}
	n, err := b.to.Write(p)
	b.room -= int64(n)
	return n, err
}

// maxName is the longest name of a created file, in bytes; it leaves room for
// a counter.
const maxName = 200

// cleanName returns a safe file name for the name that a page suggests: no
// folder, not hidden, no characters that are special to terminals or programs.
func cleanName(suggested string) string {
	if i := strings.LastIndexAny(suggested, `/\`); i >= 0 {
		suggested = suggested[i+1:]
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		case strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, suggested)
	name = strings.TrimRight(strings.TrimLeft(name, " .-@~"), " .")
	if len(name) > maxName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.TrimRight(cut(strings.TrimSuffix(name, ext), maxName-len(ext)), " .") + ext
	}
	if name == "" {
		return "download"
	}
	return name
}
