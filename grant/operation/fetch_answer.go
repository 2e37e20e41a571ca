package operation

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// readSize is how much of a body is read at a time.
const readSize = 32 << 10

// take judges an answer by its head, and reads its body when it may.
func (x *exchange) take(ctx context.Context, resp *http.Response) error {
	x.effect.Status = resp.StatusCode
	x.out.Response = &Response{URL: x.v.URL, Status: resp.StatusCode, Header: shown(resp.Header), Hops: x.hops}
	x.out.Digest = evidence.DigestOf(nil)
	next, ok, err := follow(&x.v, resp.StatusCode, resp.Header["Location"])
	if err != nil || ok {
		x.next, x.redirected, x.whole = next, ok, ok
		return err // the body of a redirect is discarded
	}
	if err := x.judge(resp); err != nil {
		return err
	}
	return x.receive(ctx, resp)
}

// judge says whether the body of an answer may be read. An answer without a
// body needs no type, but is not to name one that is not allowed.
func (x *exchange) judge(resp *http.Response) error {
	types := resp.Header["Content-Type"]
	if kind, _, err := mime.ParseMediaType(strings.Join(types, ", ")); err == nil {
		x.out.Type = kind
	}
	body := resp.Body != http.NoBody
	if body || len(types) > 0 {
		if err := x.call.Guard.ValidateMIME(strings.Join(types, ", ")); err != nil {
			return err
		}
	}
	if !body {
		return nil
	}
	target := x.v.Host.Target(x.v.Port)
	for _, coding := range resp.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return blocked("response.contentEncoding", target,
				"the answer is encoded, which was not asked for: what is in it has neither the type nor the size that were judged", "ask for another address, or have the host answer without encoding")
		}
	}
	if most := x.profile.Limits.MaxBytesIn; resp.ContentLength > most {
		return fetchTooLarge(target, most)
	}
	return nil
}

// receive reads the body.
func (x *exchange) receive(ctx context.Context, resp *http.Response) error {
	most := x.profile.Limits.MaxBytesIn
	bounded := &limited{r: resp.Body, left: most, over: fetchTooLarge(x.v.Host.Target(x.v.Port), most)}
	r := x.call.Meter.Reader(budget.BytesIn, bounded)
	hash, buf := evidence.NewHash(), make([]byte, readSize)
	for begun := false; ; {
		n, err := r.Read(buf)
		_, _ = hash.Write(buf[:n])
		x.effect.BytesIn += int64(n)
		if !begun && n > 0 {
			begun = true
			if err := x.disguised(buf[:n]); err != nil {
				return err
			}
		}
		if room := x.call.Keep - int64(len(x.out.Data)); room > 0 {
			x.out.Data = append(x.out.Data, buf[:min(int64(n), room)]...)
		}
		if err != nil {
			x.out.Digest = hash.Digest()
			x.out.Truncated = x.effect.BytesIn > int64(len(x.out.Data))
			if x.effect.BytesIn > 0 {
				x.effect.Digest = x.out.Digest
			}
			if errors.Is(err, io.EOF) && !x.severed(resp) {
				x.whole = true
				return nil
			}
			return x.failed(ctx, err)
		}
	}
}

// disguised reports a body whose beginning belongs to another family of types
// than the host declares, where types are listed: a program or an archive
// declared as text, a page declared as a picture. A body without a known
// beginning, and kinds of text among each other, count as declared.
func (x *exchange) disguised(first []byte) error {
	if x.profile.Lists.MIME == nil {
		return nil
	}
	kind, _, _ := strings.Cut(http.DetectContentType(first), ";")
	have, want := familyOf(kind), familyOf(x.out.Type)
	if have == "" || want == "" || have == want || x.call.Guard.ValidateMIME(kind) == nil {
		return nil
	}
	return blocked("response.contentType", x.v.Host.Target(x.v.Port), "the answer is declared as "+x.out.Type+" and begins like "+kind, "ask for another address, or have the type listed that it is of")
}

// familyOf is what sort of bytes a type is of; empty is any.
func familyOf(kind string) string {
	major, minor, _ := strings.Cut(kind, "/")
	switch {
	case major == "text", strings.HasSuffix(minor, "json"), strings.HasSuffix(minor, "xml"), strings.HasSuffix(minor, "javascript"):
		return "text"
	case major == "audio", major == "video", kind == "application/ogg":
		return "sound and film"
	case major == "image":
		return "picture"
	case minor == "zip", minor == "x-gzip", minor == "pdf", minor == "x-rar-compressed", minor == "wasm":
		return minor
	}
	return ""
}

// limited reads what may be read, and fails at the first byte more.
type limited struct {
	r    io.Reader
	left int64
	over error
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		n, err := l.r.Read(one[:])
		if n > 0 {
			return 0, l.over
		}
		return 0, err
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

func fetchTooLarge(target string, most int64) error {
	return blocked("profile.limits.maxBytesIn", target, "the answer has more than the "+strconv.FormatInt(most, 10)+" bytes that may be received at once", "ask for a part of it")
}

func blocked(field, resource, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: fetchOp, Field: field, Resource: resource, Message: message, Hint: hint}
}

// shown are the fields of a response that are returned to the caller: those
// that describe the body, say when to retry and where else to look. Their
// values come from the host and are made printable.
func shown(h http.Header) map[string][]string {
	out := map[string][]string{}
	for _, name := range []string{
		"Accept-Ranges", "Age", "Allow", "Cache-Control", "Content-Language", "Content-Length", "Content-Range", "Content-Type",
		"Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After", "Vary",
	} {
		for _, value := range h[name] {
			out[name] = append(out[name], printable(value))
		}
	}
	return out
}

// printable is text without anything that a terminal obeys.
func printable(s string) string {
	for _, r := range s {
		if r == '\uFFFD' || !strconv.IsPrint(r) {
			q := strconv.QuoteToASCII(s)
			return q[1 : len(q)-1]
		}
	}
	return s
}
