package page

import (
	"context"

	"github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"
)

// chunk is how much of a document is fetched at a time, in bytes.
const chunk = 1 << 20

// PDF implements [browser.Reader].
func (s *session) PDF(ctx context.Context) ([]byte, error) {
	var out []byte
	err := s.act(ctx, s.settings.Limits.Navigation, func(ctx context.Context, t *tab) error {
		var err error
		out, err = t.print(ctx, s.settings.Limits.TransferBytes)
		return err
	})
	return out, err
}

// print returns the page as a PDF document of at most limit bytes.
func (t *tab) print(ctx context.Context, limit int64) ([]byte, error) {
	made, err := call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{
		PrintBackground: new(true), TransferMode: page.PrintToPDFTransferModeReturnAsStream,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := t.brief()
		defer cancel()
		_, _ = call(ctx, t, io.Close, io.CloseParams{Handle: made.Stream})
	}()
	var out []byte
	for {
		part, err := call(ctx, t, io.Read, io.ReadParams{Handle: made.Stream, Size: chunk})
		if err != nil {
			return nil, err
		}
		if int64(len(out)+len(part.Data)) > limit {
			return nil, beyond("transferBytes", "the document is larger than "+count(limit)+" bytes")
		}
		out = append(out, part.Data...)
		if part.EOF {
			return out, nil
		}
		if len(part.Data) == 0 {
			return nil, failed("the document breaks off")
		}
	}
}
