package docker_test

import (
	"context"
	"errors"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// conflicting is an engine that starts nothing, with the conflict that err is.
type conflicting struct {
	docker.Engine
	err error
}

func (c conflicting) Start(context.Context, string) error {
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: "start container", Message: "conflict", Retryable: true, Err: c.err}
}

// TestRemovedBeforeItsStart checks the error of Create when the container is
// removed between its creation and its start: the engine's own words must lead
// to "there is none", not to "there is one".
func TestRemovedBeforeItsStart(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	opts := docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World}
	for text, want := range map[string]sandbox.Code{
		"Error response from daemon: container is marked for removal and cannot be started": sandbox.CodeUnavailable,
		"Error response from daemon: cannot start a paused container":                       sandbox.CodeBusy,
	} {
		s := r.Spec("removed")
		_, err := docker.New(conflicting{r.Engine, errors.New(text)}, opts).Create(ctx, s)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != want || !e.Retryable {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := r.P.Inspect(ctx, s.Name); !sandbox.IsNotFound(err) {
			t.Errorf("%s: and then: %v", text, err)
		}
	}
}
