package operation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// settled is what settings allow of pages in a test: no file named .env.
func settled(v grant.Vetted) error {
	if strings.HasSuffix(v.URL, ".env") {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "test", Field: "filesystem.denyRead", Message: "denied"}
	}
	return nil
}

// TestFilesInPages checks that what is in a page of the workspace gets the files
// that the call may read, and no others; pages that settings do not allow are
// none either.
func TestFilesInPages(t *testing.T) {
	f := &fakeBrowser{}
	c := with(t, t.Context(), deal{limits: grant.Limits{MaxDepth: 8}}, f.opener())
	c.allowed = settled
	c.done(nav("workspace:open/x.html"))
	for file, want := range map[string]sandbox.Code{
		"open/y.html": "", "open/a/b.png": "", "secret.txt": sandbox.CodePermissionDeny, "openly.txt": sandbox.CodePermissionDeny,
		"open/.env": sandbox.CodeCapabilityBlocked,
	} {
		if err := f.rights.Read(t.Context(), file); sandbox.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	c.done(grant.Operation{Kind: grant.OpBrowserExtract})
	effects, _ := c.last.Effects()
	var read []string
	for _, e := range effects {
		read = append(read, e.Path)
	}
	if slices.Sort(read); !slices.Equal(read, []string{"/workspace/open/a/b.png", "/workspace/open/y.html"}) {
		t.Errorf("read %q", read)
	}
	if err := f.rights.Visit(t.Context(), "workspace:open/.env", 0); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Error(err)
	}
	browseMust(t, c.Close())
	if err := f.rights.Read(context.Background(), "open/y.html"); err == nil {
		t.Error("files are read after the end of the call")
	}
}

// TestFilesInPagesWithChromium uses a page that was put into the folder that
// the call may read, and that loads files beside it.
func TestFilesInPagesWithChromium(t *testing.T) {
	w := newTown(t)
	browseMust(t, os.MkdirAll(filepath.Join(w.Dir, "open"), 0o755))
	for name, text := range map[string]string{
		"open/x.html": `<title>x</title><p id=p></p><iframe src=../secret.txt></iframe><script>
			(async () => { for (const f of ['in.txt', '../secret.txt', '.env']) p.append(await (await fetch(f)).text()) ; p.append('end') })()</script>`,
		"open/in.txt": "within ", "open/.env": "denied-text", "secret.txt": "secret-text",
	} {
		browseMust(t, os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o644))
	}
	c := with(t, t.Context(), w.deal(), w.open)
	c.allowed = settled
	c.done(nav("workspace:open/x.html"))
	c.done(grant.Operation{Kind: grant.OpBrowserWait, Text: "end", Timeout: 30 * time.Second})
	got := string(c.done(grant.Operation{Kind: grant.OpBrowserExtract}).Data)
	if !strings.Contains(got, "within") || slices.ContainsFunc([]string{"secret-text", "denied-text"}, func(s string) bool { return strings.Contains(got, s) }) {
		t.Errorf("the page shows %q", got)
	}
}
