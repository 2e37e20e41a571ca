package mcp

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// TestSessionsAwaitTheirAnswers holds that the session of a caller whose token
// is no longer valid ends a second after the last of its calls, that it does not
// wait for a call without bound, and that no call begins in the meantime.
func TestSessionsAwaitTheirAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		calls []time.Duration // how long they run on
		gone  time.Duration   // when the client goes; 0 is never
		want  time.Duration   // when the session ends
	}{
		"no call":             {nil, 0, time.Second},
		"a call":              {[]time.Duration{0}, 0, time.Second},
		"two calls":           {[]time.Duration{20 * time.Second, 5 * time.Second}, 0, 21 * time.Second},
		"as many as may":      {[]time.Duration{3 * time.Second, 2 * time.Second, time.Second}, 0, 4 * time.Second},
		"a call without end":  {[]time.Duration{time.Hour}, 0, 61 * time.Second},
		"the client goes":     {[]time.Duration{time.Hour}, 7 * time.Second, 7 * time.Second},
		"it goes at the last": {[]time.Duration{6 * time.Second}, 6500 * time.Millisecond, 6500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { awaits(t, tt.calls, tt.gone, tt.want) })
		})
	}
}

func awaits(t *testing.T, calls []time.Duration, gone, want time.Duration) {
	over, lose := context.WithCancelCause(t.Context())
	open, end := context.WithCancel(t.Context())
	x := &session{Server: New(Options{Calls: 3, Refresh: time.Hour}), calls: make(chan struct{}, 3), open: open, end: end}
	x.life, x.cancel = context.WithCancelCause(open)
	x.bound.Watch = func(ctx context.Context) (context.Context, func()) {
		ctx, stop := context.WithCancelCause(ctx)
		undo := context.AfterFunc(over, func() { stop(context.Cause(over)) })
		return ctx, func() { undo(); stop(nil) }
	}
	var run sync.WaitGroup
	defer run.Wait()
	for _, more := range calls {
		ctx, leave, err := x.admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run.Go(func() {
			<-ctx.Done()
			<-time.After(more) // of the bubble
			leave()
		})
	}
	go x.attend()
	synctest.Wait()
	began := time.Now()
	lose(&sandbox.Error{Code: sandbox.CodePermissionDeny})
	if gone > 0 {
		time.AfterFunc(gone, end)
	}
	synctest.Wait()
	if _, _, err := x.admit(t.Context()); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("a later call: %v", err)
	}
	<-open.Done()
	if took := time.Since(began); took != want {
		t.Errorf("it ends after %v, want %v", took, want)
	}
}
