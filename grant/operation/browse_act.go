package operation

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// mostText is how much text of a page is read at most, in bytes.
const mostText = 16 << 20

// navigate opens a page, in a new session where there is none.
func (r *browseRun) navigate(ctx context.Context) (Output, error) {
	s, err := r.e.ensure(ctx, r.c)
	if err != nil {
		return Output{}, err
	}
	p, err := s.Navigate(ctx, r.v.URL)
	if err != nil {
		return Output{}, err
	}
	if p.MIME != "" && !strings.HasPrefix(p.URL, "workspace:") {
		if err := r.c.Guard.ValidateMIME(p.MIME); err != nil {
			r.e.drop() // the page must not be used again
			return Output{}, err
		}
	}
	page := &Page{URL: p.URL, Status: int(p.Status), Title: p.Title, Hops: p.Redirects}
	return Output{Type: p.MIME, Digest: evidence.DigestOf(nil), Page: page}, nil
}

// look does what changes nothing.
func (r *browseRun) look(ctx context.Context, s browser.Session) (Output, error) {
	none := Output{Digest: evidence.DigestOf(nil)}
	switch r.v.Kind {
	case grant.OpBrowserScreenshot:
		p, err := s.Screenshot(ctx, browser.Shot{Selector: r.v.Selector, Full: r.v.FullPage})
		if err != nil {
			return Output{}, err
		}
		return r.whole(p.Data, p.MIME)
	case grant.OpBrowserPDF:
		data, err := s.PDF(ctx)
		if err != nil {
			return Output{}, err
		}
		return r.whole(data, "application/pdf")
	case grant.OpBrowserWait:
		c := browser.Condition{Text: r.v.Text, Timeout: r.v.Timeout}
		if r.v.Gone {
			c.Gone = r.v.Selector
		} else {
			c.Visible = r.v.Selector
		}
		return none, s.Wait(ctx, c)
	}
	most := min(mostText, r.c.Guard.Profile().Limits.MaxBytesIn)
	found, err := s.Extract(ctx, browser.Extraction{Text: true, Selector: r.v.Selector, MaxText: int(most)})
	if err != nil {
		return Output{}, err
	}
	out, err := r.text(found.Text, found.Truncated)
	out.Page = &Page{URL: found.URL, Title: found.Title}
	return out, err
}

// touch carries out an action that may change something, here or at the origin
// of the page. The action counts as done from its beginning.
func (r *browseRun) touch(ctx context.Context, s browser.Session) (Output, error) {
	r.e.mu.Lock()
	effect := evidence.Effect{Kind: grant.EffectWrite, Host: r.e.host}
	r.e.mu.Unlock()
	none := Output{Digest: evidence.DigestOf(nil)}
	switch r.v.Kind {
	case grant.OpBrowserClick:
		r.c.Effect(effect)
		return none, s.Click(ctx, r.v.Selector)
	case grant.OpBrowserType:
		text := []byte(r.v.Text)
		if err := r.c.Meter.Add(budget.BytesOut, int64(len(text))); err != nil {
			return none, err
		}
		effect.BytesOut, effect.Digest = int64(len(text)), evidence.DigestOf(text)
		r.c.Effect(effect)
		return none, s.Type(ctx, r.v.Selector, r.v.Text)
	case grant.OpBrowserUpload:
		before := budget.Of(r.c.Meter.Used(), budget.BytesOut)
		err := s.Upload(ctx, r.v.Selector, []string{r.inWorkspace()})
		effect.Path, effect.BytesOut = r.v.Path, budget.Of(r.c.Meter.Used(), budget.BytesOut)-before
		r.c.Effect(effect)
		return none, err
	}
	return r.download(ctx, s)
}

// download clicks on what is to be downloaded, and puts it into the workspace.
func (r *browseRun) download(ctx context.Context, s browser.Session) (Output, error) {
	d, err := s.Download(ctx, r.v.Selector, r.inWorkspace())
	effect := evidence.Effect{Kind: grant.EffectFilesystem, Path: r.v.Path}
	if err != nil {
		r.c.Effect(effect) // the click was made, and a folder perhaps
		return Output{Digest: evidence.DigestOf(nil)}, err
	}
	path := r.c.Guard.Profile().Mappings.Root + "/" + d.Path
	digest := evidence.Digest{Algo: "sha-256", B64: base64.StdEncoding.EncodeToString(d.Sum), Size: d.Size}
	effect.Path, effect.BytesIn, effect.Digest = path, d.Size, digest
	r.c.Effect(effect)
	return Output{Path: path, Digest: digest, Truncated: true}, nil
}

// inWorkspace is the path of the operation as sessions take it.
func (r *browseRun) inWorkspace() string {
	rest := strings.TrimPrefix(r.v.Path, r.c.Guard.Profile().Mappings.Root)
	if rest = strings.TrimPrefix(rest, "/"); rest == "" {
		return "."
	}
	return "./" + rest
}
