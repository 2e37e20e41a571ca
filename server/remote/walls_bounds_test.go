package remote

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A slow provider opens sandboxes and shells when the test lets it, and fails
// for some.
type slow struct {
	sandbox.Provider
	sandbox.Sandbox
	up   chan struct{}
	fail error

	mu    sync.Mutex
	asked int
}

func (w *slow) Name() string { return "slow" }

func (w *slow) wait() error {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	<-w.up
	return w.fail
}

func (w *slow) Open(context.Context, sandbox.Spec) (sandbox.Sandbox, error) { return w, w.wait() }

func (w *slow) OpenShell(context.Context, sandbox.ShellOptions) (sandbox.Shell, error) {
	return idle{}, w.wait()
}

type idle struct{ sandbox.Shell }

func (idle) ID() string      { return "" }
func (idle) Program() string { return "" }

// TestOpensWithinBounds holds that concurrent calls cannot open more handles and
// shells than sequential ones, and that a failed open occupies no place.
func TestOpensWithinBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		most int
		open func(*Handler, *handle, *slow) error
	}{
		"handles": {maxHandles, func(h *Handler, _ *handle, w *slow) error {
			_, err := h.bring(context.Background(), w, stream.Spec{}, nil)
			return err
		}},
		"shells": {maxShells, func(_ *Handler, o *handle, _ *slow) error {
			_, err := openShell(o, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const more = 5
				h := NewWalls(Options{Instances: func(string) bool { return true }})
				defer h.Close()
				broken := errors.New("it is broken")
				for _, fail := range []error{broken, nil} {
					w := &slow{up: make(chan struct{}), fail: fail}
					o := &handle{h: h, sb: w, shells: map[string]sandbox.Shell{}}
					ends := make(chan error, tt.most+more)
					for range tt.most + more {
						go func() { ends <- tt.open(h, o, w) }()
					}
					synctest.Wait()
					if w.mu.Lock(); w.asked != tt.most {
						t.Errorf("%d are opened at once", w.asked)
					}
					w.mu.Unlock()
					close(w.up)
					refused := 0
					for range tt.most + more {
						switch err := <-ends; {
						case sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded:
							refused++
						case err != fail:
							t.Error(err)
						}
					}
					if refused != more || h.opening != 0 || o.opening != 0 {
						t.Errorf("%d were refused; %d and %d still open", refused, h.opening, o.opening)
					}
					if err := tt.open(h, o, w); fail == nil && sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || fail != nil && err != fail {
						t.Errorf("one more: %v", err)
					}
				}
			})
		})
	}
}
