package resource

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Put replaces the file name by the body of the request, or creates it,
// atomically: readers see the old content or the new one, and after an error the
// old. It creates missing folders. scope distinguishes sandboxes, such as a
// sandbox's name.
func (s *filesServer) Put(w http.ResponseWriter, r *http.Request, t Tree, scope, name string) (api.WrittenFile, error) {
	perm, err := putOptions(r)
	if err != nil {
		return api.WrittenFile{}, err
	}
	if r.ContentLength > s.limits.File {
		return api.WrittenFile{}, TooLarge(s.limits.File)
	}
	back, err := s.changing(r.Context(), scope, name)
	if err != nil {
		return api.WrittenFile{}, err
	}
	defer back()
	exclusive, created, err := s.mayPut(r, t, name)
	if err != nil {
		return api.WrittenFile{}, err
	}
	body := newBody(w, r.Body, s.limits.File)
	defer body.settle()
	err = t.Write(r.Context(), name, body, sandbox.WriteOptions{Perm: perm, Exclusive: exclusive})
	switch cause := body.failure(); {
	case errors.Is(cause, errTooLarge):
		return api.WrittenFile{}, TooLarge(s.limits.File)
	case cause != nil:
		return api.WrittenFile{}, BodyErr(cause)
	case err != nil && exclusive && errors.Is(err, fs.ErrExist):
		return api.WrittenFile{}, precondition(name, "If-None-Match")
	case err != nil:
		return api.WrittenFile{}, err
	}
	n, tag := body.passed()
	return api.WrittenFile{Path: name, Size: n, Created: created, ETag: tag.String()}, nil
}

// putOptions reads the parameters of a PUT.
func putOptions(r *http.Request) (fs.FileMode, error) {
	if r.Header.Get("Content-Range") != "" {
		return 0, malformed("Content-Range", "a part of a file cannot be replaced", "send the whole content")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return 0, &Fault{Status: http.StatusUnsupportedMediaType, Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "write",
			Field: "Content-Encoding", Message: "contents are taken as they are", Hint: "send the content without encoding"}}
	}
	text := r.URL.Query().Get("mode")
	if text == "" {
		return 0, nil
	}
	return modeOf(text)
}

// modeOf reads permissions in octal.
func modeOf(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return 0, malformed("mode", "the mode is no octal number from 1 to 777", "for example 0644")
	}
	return fs.FileMode(mode), nil
}

// mayPut checks the request's conditions against the existing file.
func (s *filesServer) mayPut(r *http.Request, t Tree, name string) (exclusive, created bool, err error) {
	none, ok := readCondition(r.Header.Values("If-None-Match"))
	if !ok {
		return false, false, malformedTags("If-None-Match")
	}
	conditional := none.given || r.Header.Get("If-Match") != "" || r.Header.Get("If-Unmodified-Since") != ""
	if !conditional {
		_, err := t.Lstat(r.Context(), name)
		if err != nil && !missing(err) {
			return false, false, err
		}
		return false, err != nil, nil
	}
	c, err := s.lookFor(r.Context(), t, name, none.any)
	if err != nil {
		return false, false, err
	}
	if err := s.ifMatch(r, t, c); err != nil {
		return false, false, err
	}
	switch {
	case none.any:
		return true, true, nil // the file system decides
	case none.given && c != nil:
		have, err := s.digest(r.Context(), t, c, none)
		if err != nil {
			return false, false, err
		}
		if none.matches(have, tag.weakly) || none.matches(c.tag, tag.weakly) {
			return false, false, precondition(name, "If-None-Match")
		}
	}
	return false, c == nil, nil
}

// lookFor is look for a file that need not exist: the content is nil then.
func (s *filesServer) lookFor(ctx context.Context, t Tree, name string, exclusive bool) (*content, error) {
	c, err := s.look(ctx, t, name)
	switch {
	case err == nil:
		return c, nil
	case missing(err):
		return nil, nil
	case exclusive:
		// The name exists; the file system refuses the exclusive write.
		return nil, nil
	}
	return nil, err
}
