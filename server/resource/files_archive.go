package resource

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// ContentTar is the content type of an archive.
const ContentTar = "application/x-tar"

// trailerLeft is the trailer of an archive that says how many files and folders
// were left out, because they are not readable, not regular or gone.
const trailerLeft = "Sandbox-Left-Out"

func (s *filesServer) tar() copy.Limits {
	return copy.Limits{Entries: s.limits.Entries, File: s.limits.File, Total: s.limits.Archive}
}

// Pack answers with a tar archive of the file or folder name: of a folder its
// content with names relative to it, of a file that file. An error before the
// first byte is answered as a problem. After it the answer is cut short, which
// the client notices because the stream does not end as it should; the error is
// [ErrCut] then, and the caller must close the connection.
func (s *filesServer) Pack(w http.ResponseWriter, r *http.Request, t Tree, name string) error {
	info, err := t.Stat(r.Context(), name)
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return regular(name, false, false)
	}
	top := path.Base(name)
	if info.IsDir() {
		top = ""
	}
	h := w.Header()
	h.Set("Content-Type", ContentTar)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	out := &started{w: w}
	tally := &copy.Tally{}
	err = copy.Pack(r.Context(), copy.Source{Files: t, Path: name, Limits: s.tar()}, top, out, tally)
	h.Set(http.TrailerPrefix+trailerLeft, strconv.Itoa(len(tally.Left())))
	if err != nil && out.any() {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return err
}

// started records whether anything was written.
type started struct {
	w  io.Writer
	mu sync.Mutex
	n  int64
}

func (s *started) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.n += int64(len(p))
	s.mu.Unlock()
	return s.w.Write(p)
}

func (s *started) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n > 0
}

// Unpack extracts the archive in the body below the folder name. It leaves out
// entries that are not allowed and lists them in the result. A name that leads
// out of the folder, and an archive that is malformed or too large, end it with
// an error; the entries before that stay.
func (s *filesServer) Unpack(w http.ResponseWriter, r *http.Request, t Tree, name string) (api.UnpackedArchive, error) {
	tally := &copy.Tally{}
	in := newBody(w, r.Body, 1<<62)
	defer in.settle()
	ctx, done := in.outlive(r.Context())
	defer done()
	err := copy.Unpack(ctx, wholeBody{in}, copy.Target{Files: t, Dir: name, Limits: s.tar()}, tally)
	if cause := in.failure(); cause != nil {
		return api.UnpackedArchive{}, BodyErr(cause)
	}
	if err != nil {
		return api.UnpackedArchive{}, err
	}
	n := tally.Count()
	out := api.UnpackedArchive{Path: name, Files: n.Files, Folders: n.Folders, Links: n.Links, Bytes: n.Bytes, Left: []api.LeftOut{}}
	for _, l := range tally.Left() {
		out.Left = append(out.Left, api.LeftOut{Path: termsafe.Line(l.Path), Reason: termsafe.Line(l.Reason)})
	}
	return out, nil
}
