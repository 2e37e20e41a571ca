package images

import (
	"context"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// reporter passes an event on with the image filled in.
type reporter func(Event)

// make is the frame around everything that makes an image: callers share one
// run of fn per verb and ref, other processes wait, an image that has come up
// meanwhile is taken when keep is set, and what ref names afterwards is the
// result.
func (s *Store) make(ctx context.Context, verb, ref string, phase Phase, o Options, keep bool, fn func(context.Context, reporter) error) (Image, error) {
	key := verb + ref
	if keep {
		key = "ensure: " + key // must not be shared with a caller that wants a new build
	}
	if o.Base != "" {
		key += " on " + o.Base
	}
	return s.flights.do(ctx, key, o.Progress, func(ctx context.Context, p Progress) (Image, error) {
		img, err := s.makeLocked(ctx, ref, p, keep, fn)
		end := Event{Image: ref, Phase: phase, Done: true}
		if err == nil {
			end.Text = "ready, " + clip(img.ID, 19)
		}
		p.Report(end)
		return img, err
	})
}

func (s *Store) makeLocked(ctx context.Context, ref string, p Progress, keep bool, fn func(context.Context, reporter) error) (Image, error) {
	say := func(e Event) {
		e.Image = ref
		e.Text, e.Part = clip(printable(e.Text), 500), clip(printable(e.Part), 100)
		p.Report(e)
	}
	unlock, err := s.lock(ctx, ref, func(ph Phase, text string) { say(Event{Phase: ph, Text: text}) })
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if keep {
		img, err := s.Inspect(ctx, ref)
		if err == nil || !sandbox.IsNotFound(err) {
			return img, err
		}
	}
	if err := fn(ctx, say); err != nil {
		return Image{}, err
	}
	img, err := s.Inspect(ctx, ref)
	if sandbox.IsNotFound(err) {
		return Image{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "make image", Resource: ref, Retryable: true,
			Message: "the engine made " + printable(ref) + " and then had none; it was removed meanwhile"}
	}
	return img, err
}
