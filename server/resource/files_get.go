package resource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A content is a file and the metadata of its answer.
type content struct {
	name     string
	size     int64
	modified time.Time
	tag      tag
	held     []byte // all of it, where the tag is strong
}

// Get answers GET and HEAD for the file name. An error means that nothing was
// written; a failure after the head cuts the answer short, so that it has fewer
// bytes than announced, and is returned as [ErrCut].
func (s *filesServer) Get(w http.ResponseWriter, r *http.Request, t Tree, name string) error {
	c, err := s.look(r.Context(), t, name)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("ETag", c.tag.String())
	h.Set("Last-Modified", c.modified.UTC().Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	unchanged, err := s.judge(r, t, c)
	if err != nil {
		return err
	}
	if unchanged {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	// A browser must never show what code inside has written as a page of the
	// daemon.
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	at, status := span{0, c.size}, http.StatusOK
	if values := r.Header.Values("Range"); r.Method == http.MethodGet && len(values) > 0 && c.rangeCounts(r) {
		switch got, kind := readRange(values, c.size); kind {
		case part:
			at, status = got, http.StatusPartialContent
			h.Set("Content-Range", got.contentRange(c.size))
		case unsatisfiable:
			return notThere(c)
		}
	}
	return c.send(w, r, t, at, status)
}

// errCut says that an answer was cut short.
var errCut = errors.New("the answer was cut short")

func notThere(c *content) error {
	return &Fault{Status: http.StatusRequestedRangeNotSatisfiable,
		Header: http.Header{"Content-Range": {"bytes */" + strconv.FormatInt(c.size, 10)}},
		Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "read", Field: "Range",
			Message: "the content has no such bytes; it has " + strconv.FormatInt(c.size, 10)}}
}

// look reads what the answer for the file name depends on.
func (s *filesServer) look(ctx context.Context, t Tree, name string) (*content, error) {
	if c, err := lookAtSmall(ctx, t, name, s.limits.Whole); c != nil || err != nil {
		return c, err
	}
	info, err := t.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := regular(name, info.IsDir(), info.Mode().IsRegular()); err != nil {
		return nil, err
	}
	c := &content{name: name, size: info.Size(), modified: info.ModTime(), tag: weakTag(info)}
	if info.Size() > s.limits.Whole {
		return c, nil
	}
	data, err := readAll(ctx, t, name, info.Size(), s.limits.Whole+1)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > s.limits.Whole {
		// The file has grown meanwhile; what was read is no longer the whole.
		return s.lookAgain(ctx, t, name)
	}
	c.size, c.held, c.tag = int64(len(data)), data, strongTag(sha256.Sum256(data))
	return c, nil
}

// small is the size in bytes up to which a file is read before it is known how
// large it is: most files are smaller, and come with one call to the sandbox.
const small = 16 << 10

// lookAtSmall returns a file of less than small bytes. It returns nil and no
// error if the file is larger, cannot be read, or has a reader that cannot
// describe it: the call for its description says then what is the matter.
func lookAtSmall(ctx context.Context, t Tree, name string, whole int64) (*content, error) {
	most := min(small, whole+1)
	r, err := t.Read(ctx, name, 0, most)
	switch {
	case missing(err):
		return nil, err
	case err != nil:
		return nil, nil
	}
	info, err := sandbox.StatOf(r)
	if err != nil || info.Size() >= most {
		return nil, r.Close()
	}
	data, err := io.ReadAll(io.LimitReader(r, most))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) >= most {
		return nil, nil
	}
	return &content{name: name, size: int64(len(data)), modified: info.ModTime(), held: data, tag: strongTag(sha256.Sum256(data))}, nil
}

// lookAgain is look for a file that is known to be large.
func (s *filesServer) lookAgain(ctx context.Context, t Tree, name string) (*content, error) {
	info, err := t.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := regular(name, info.IsDir(), info.Mode().IsRegular()); err != nil {
		return nil, err
	}
	return &content{name: name, size: info.Size(), modified: info.ModTime(), tag: weakTag(info)}, nil
}

// readAll reads a file of about so many bytes, at most the most. It allocates
// the buffer once: a growing buffer is copied many times.
func readAll(ctx context.Context, t Tree, name string, about, most int64) ([]byte, error) {
	r, err := t.Read(ctx, name, 0, most)
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	data.Grow(int(min(max(about, 0), most)) + bytes.MinRead)
	_, err = data.ReadFrom(io.LimitReader(r, most))
	return data.Bytes(), errors.Join(err, r.Close())
}

// judge checks the file against the conditions of the request, in the order of
// RFC 9110. unchanged means that the client has the content.
func (s *filesServer) judge(r *http.Request, t Tree, c *content) (unchanged bool, err error) {
	if err := s.ifMatch(r, t, c); err != nil {
		return false, err
	}
	none, ok := readCondition(r.Header.Values("If-None-Match"))
	switch {
	case !ok:
		return false, malformedTags("If-None-Match")
	case none.given:
		return none.any || none.matches(c.tag, tag.weakly), nil
	}
	since, ok := readTime(r.Header.Values("If-Modified-Since"))
	return ok && !c.modified.Truncate(time.Second).After(since), nil
}

// ifMatch is the part of judge that also applies to changes. c is nil where
// there is no file.
func (s *filesServer) ifMatch(r *http.Request, t Tree, c *content) error {
	match, ok := readCondition(r.Header.Values("If-Match"))
	switch {
	case !ok:
		return malformedTags("If-Match")
	case match.given && c == nil:
		return precondition(r.URL.Path, "If-Match")
	case match.any:
		return nil
	case match.given:
		have, err := s.digest(r.Context(), t, c, match)
		if err != nil {
			return err
		}
		if !match.matches(have, tag.strongly) {
			return precondition(c.name, "If-Match")
		}
		return nil
	}
	until, ok := readTime(r.Header.Values("If-Unmodified-Since"))
	if ok && (c == nil || c.modified.Truncate(time.Second).After(until)) {
		return precondition(r.URL.Path, "If-Unmodified-Since")
	}
	return nil
}

func malformedTags(header string) error {
	return malformed(header, header+" is neither * nor a list of entity tags", `for example: "sha256-…"`)
}

// digest returns the strong tag of c, which it computes when the condition could
// match it, and else the tag that c has.
func (s *filesServer) digest(ctx context.Context, t Tree, c *content, want condition) (tag, error) {
	if !c.tag.weak || !want.strong() || c.size > s.limits.Hashed {
		return c.tag, nil
	}
	r, err := t.Read(ctx, c.name, 0, s.limits.Hashed+1)
	if err != nil {
		return tag{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return tag{}, err
	}
	if n > s.limits.Hashed {
		return c.tag, nil
	}
	return strongTag([sha256.Size]byte(sum.Sum(nil))), nil
}

// readTime parses the value of a header that holds a time. It ignores an invalid
// value, as RFC 9110 requires.
func readTime(values []string) (time.Time, bool) {
	if len(values) != 1 {
		return time.Time{}, false
	}
	at, err := http.ParseTime(values[0])
	return at, err == nil
}

// rangeCounts reports whether If-Range, if given, permits a range: only with the
// strong tag of this content.
func (c *content) rangeCounts(r *http.Request) bool {
	values := r.Header.Values("If-Range")
	if len(values) == 0 {
		return true
	}
	want, ok := readCondition(values)
	return ok && len(want.tags) == 1 && want.matches(c.tag, tag.strongly)
}

// send writes the part at of the content.
func (c *content) send(w http.ResponseWriter, r *http.Request, t Tree, at span, status int) error {
	var from io.ReadCloser = io.NopCloser(bytes.NewReader(c.held))
	switch {
	case r.Method == http.MethodHead:
	case c.held != nil:
		from = io.NopCloser(bytes.NewReader(c.held[at.start : at.start+at.length]))
	case at.length > 0:
		opened, err := t.Read(r.Context(), c.name, at.start, at.length)
		if err != nil {
			return err
		}
		from = opened
	}
	defer from.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(at.length, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	n, err := io.Copy(w, io.LimitReader(from, at.length))
	if err == nil && n < at.length {
		err = io.ErrUnexpectedEOF // the file became shorter
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return nil
}

// missing reports whether err says that there is no file of that name.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || sandbox.IsNotFound(err) }
