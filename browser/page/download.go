package page

import (
	"context"
	"crypto/sha256"
	"path"
	"strings"
	"sync"
	"time"

	devtools "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// transfers are the download events of a session.
type transfers struct {
	mu       sync.Mutex
	begun    *devtools.EventDownloadWillBegin // the first since the last reset
	others   []string                         // further downloads that began, to be canceled
	progress devtools.EventDownloadProgress   // of the first
	wake     chan struct{}
}

// reset discards the events.
func (d *transfers) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun, d.others, d.progress = nil, nil, devtools.EventDownloadProgress{}
}

// began notes a download.
func (d *transfers) began(e devtools.EventDownloadWillBegin) {
	if !isGUID(e.GUID) {
		return
	}
	e.URL, e.SuggestedFilename = kept(e.URL, maxURL), kept(e.SuggestedFilename, maxID*16)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun == nil {
		d.begun = &e
	} else if len(d.others) < maxChildren {
		d.others = append(d.others, e.GUID)
	}
	d.poke()
}

// went notes the progress of a download.
func (d *transfers) went(e devtools.EventDownloadProgress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun != nil && d.begun.GUID == e.GUID {
		e.FilePath = "" // the path is known
		d.progress = e
		d.poke()
	}
}

func (d *transfers) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// look returns the current state, and hands over the further downloads, which
// are to be canceled.
func (d *transfers) look() (begun *devtools.EventDownloadWillBegin, progress devtools.EventDownloadProgress, others []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others, d.others = d.others, nil
	return d.begun, d.progress, others
}

// allowDownloads lets downloads go to a folder inside; "" refuses them.
func (s *session) allowDownloads(ctx context.Context, folder string) error {
	p := devtools.SetDownloadBehaviorParams{
		Behavior: devtools.SetDownloadBehaviorBehaviorDeny, BrowserContextID: s.profile, EventsEnabled: new(true),
	}
	if folder != "" {
		p.Behavior, p.DownloadPath = devtools.SetDownloadBehaviorBehaviorAllowAndName, folder
	}
	_, err := cdp.Call(ctx, s.root, devtools.SetDownloadBehavior, p)
	return err
}

// Download implements [browser.Writer]. The download has to begin within the
// time of a navigation.
func (s *session) Download(ctx context.Context, selector, folder string) (browser.Download, error) {
	if !s.rights.Write {
		return browser.Download{}, denied("download")
	}
	if !s.settings.Downloads {
		return browser.Download{}, &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "download", Message: "the settings allow no downloads",
			Hint: "have browser.allowDownloads allow them",
		}
	}
	if folder = strings.TrimSuffix(folder, "/"); folder != "" && folder != "." && folder != sandbox.WorkspaceDir {
		var err error
		if folder, err = network.File(folder); err != nil {
			return browser.Download{}, err
		}
	} else {
		folder = ""
	}
	place, err := s.container.Workspace(ctx)
	if err != nil {
		return browser.Download{}, err
	}
	if place.Refusal != nil {
		return browser.Download{}, place.Refusal
	}
	into, err := openFolder(place, folder)
	if err != nil {
		return browser.Download{}, err
	}
	defer into.close()
	var out browser.Download
	err = s.act(ctx, maxWait, func(ctx context.Context, t *tab) error {
		var err error
		out, err = t.download(ctx, selector, into)
		return err
	})
	return out, err
}

func (t *tab) download(ctx context.Context, selector string, into *landing) (browser.Download, error) {
	s := t.session
	folder, err := s.makeFolder(ctx)
	if err != nil {
		return browser.Download{}, err
	}
	s.transfers.reset()
	if err := s.allowDownloads(ctx, folder); err != nil {
		return browser.Download{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		if s.allowDownloads(ctx, "") != nil {
			t.end(stuck()) // downloads must be refused, and the page does not accept that command
		}
		s.removeFolders(folder)
	}()
	before := t.look().refusals
	if err := t.click(ctx, selector); err != nil {
		return browser.Download{}, err
	}
	begun, size, err := t.arrive(ctx, before)
	if err != nil {
		return browser.Download{}, err
	}
	if err := s.transfer(ctx, browser.Transfer{Bytes: size}); err != nil {
		return browser.Download{}, err
	}
	most := s.settings.Limits.TransferBytes
	if s.rights.Transfer != nil {
		most = min(most, size)
	}
	sum := sha256.New()
	name, n, err := into.take(ctx, cleanName(begun.SuggestedFilename), most, sum, func(w *bounded) error {
		return s.inside(ctx, nil, w, "cat", "--", path.Join(folder, begun.GUID))
	})
	if err != nil {
		return browser.Download{}, err
	}
	if n < size {
		return browser.Download{}, failed("the download breaks off")
	}
	return browser.Download{Path: name, Size: n, URL: spoken(begun.URL), Sum: sum.Sum(nil)}, nil
}

// arrive waits until a download is complete, and returns its size. refused is
// the number of refused documents before the download was requested.
func (t *tab) arrive(ctx context.Context, refused int) (*devtools.EventDownloadWillBegin, int64, error) {
	s := t.session
	late := time.NewTimer(s.settings.Limits.Navigation)
	defer late.Stop()
	limit := float64(s.settings.Limits.TransferBytes)
	for {
		now := t.look()
		begun, p, others := s.transfers.look()
		for _, guid := range others {
			s.cancelDownload(guid)
		}
		switch {
		case begun == nil && now.refusals > refused && s.rights.Visit != nil:
			return nil, 0, now.latest
		case p.ReceivedBytes > limit || p.TotalBytes > limit:
			s.cancelDownload(begun.GUID)
			return nil, 0, beyond("transferBytes", "the download is larger than "+count(s.settings.Limits.TransferBytes)+" bytes")
		case p.State == devtools.DownloadProgressStateCompleted:
			return begun, int64(p.ReceivedBytes), nil
		case p.State == devtools.DownloadProgressStateCanceled:
			return nil, 0, failed("the browser has given up the download")
		}
		var tooLate <-chan time.Time
		if begun == nil {
			tooLate = late.C
		}
		select {
		case <-s.transfers.wake:
		case <-now.changed:
		case <-tooLate:
			if why := t.look().refusal; why != nil {
				return nil, 0, why
			}
			return nil, 0, failed("the click has begun no download")
		case <-ctx.Done():
			if begun != nil {
				s.cancelDownload(begun.GUID)
			}
			return nil, 0, ctx.Err()
		}
	}
}

// cancelDownload ends a download.
func (s *session) cancelDownload(guid string) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_, _ = cdp.Call(ctx, s.root, devtools.CancelDownload, devtools.CancelDownloadParams{GUID: guid, BrowserContextID: s.profile})
}

// isGUID reports whether guid can be the id of a download.
func isGUID(guid string) bool {
	return guid != "" && len(guid) <= 64 && strings.Trim(guid, "0123456789abcdefABCDEF-") == "" && guid[0] != '-'
}
