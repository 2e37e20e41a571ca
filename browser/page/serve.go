package page

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"

	"github.com/bulkhead-dev/sandbox"
)

// serve answers a request with a workspace file. The answer is the same for a
// missing file and a file that may not be read.
func (t *tab) serve(ctx context.Context, line cdp.Session, e fetch.EventRequestPaused, file string) {
	answer := fetch.FulfillRequestParams{RequestID: e.RequestID, ResponseCode: http.StatusNotFound, Body: []byte("no such file\n")}
	kind := "text/plain; charset=utf-8"
	body, done, err := t.session.readFile(ctx, file, t.session.settings.Limits.PageBytes)
	defer done()
	switch {
	case err == nil:
		answer.ResponseCode, answer.Body, kind = http.StatusOK, body, contentType(file)
	case sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded:
		t.refuse(err)
		answer.ResponseCode, answer.Body = http.StatusRequestEntityTooLarge, []byte("the file is too large\n")
	case string(e.FrameID) == string(t.id) && e.Request.URL == t.look().asked:
		t.refuse(err)
	}
	answer.ResponseHeaders = []*fetch.HeaderEntry{
		{Name: "Content-Type", Value: kind},
		{Name: "X-Content-Type-Options", Value: "nosniff"},
		{Name: "Cross-Origin-Resource-Policy", Value: "same-origin"},
		{Name: "Cache-Control", Value: "no-store"},
	}
	_, _ = cdp.Call(ctx, line, fetch.FulfillRequest, answer)
}

// largeFile is the size in bytes above which files are served one at a time. A
// message with a file takes several times its size in memory, and a page of
// the workspace may request many at once.
const largeFile = 1 << 20

// readFile reads a workspace file of at most limit bytes. The caller calls
// done, which is never nil, when the content is no longer needed: only one
// large file is in memory at a time.
func (s *session) readFile(ctx context.Context, file string, limit int64) (_ []byte, done func(), _ error) {
	done = func() {}
	if err := s.mayRead(ctx, file); err != nil {
		return nil, done, err
	}
	place, err := s.container.Workspace(ctx)
	if err != nil {
		return nil, done, err
	}
	f, size, err := openPlain(place.Dir, file)
	if err != nil {
		return nil, done, err
	}
	defer f.Close()
	if size > limit {
		return nil, done, beyond("pageBytes", "the file "+shown(file)+" is larger than "+count(limit)+" bytes")
	}
	if size > largeFile {
		select {
		case s.large <- struct{}{}:
			done = func() { <-s.large }
		case <-ctx.Done():
			return nil, done, late(ctx, "another large file takes too long")
		}
	}
	// If the file grows meanwhile, the added bytes are not read.
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, done, failed("the file " + shown(file) + " cannot be read")
	}
	return data[:n], done, nil
}

// contentType returns the content type for a file name, as web servers do. It
// does not use the machine's tables, so that it is the same everywhere.
func contentType(file string) string {
	switch ext := strings.ToLower(path.Ext(file)); ext {
	case ".html", ".htm":
		return "text/html; charset=utf-8"
	case ".xhtml":
		return "application/xhtml+xml"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".svg":
		return "image/svg+xml"
	case ".xml":
		return "text/xml; charset=utf-8"
	case ".png", ".gif", ".webp", ".avif", ".bmp":
		return "image/" + ext[1:]
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".ico":
		return "image/x-icon"
	case ".woff", ".woff2", ".ttf", ".otf":
		return "font/" + ext[1:]
	case ".wasm":
		return "application/wasm"
	case ".pdf":
		return "application/pdf"
	case ".mp4", ".webm":
		return "video/" + ext[1:]
	case ".mp3":
		return "audio/mpeg"
	case ".txt", ".md", ".csv", ".log", "":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
