package admission

import (
	"context"
	"testing"

	"github.com/bulkhead-dev/sandbox/tenant"
)

// TestCommandHasTheTurnOfItsRequest holds that the first command of a request
// uses the turn that the request waited for, and that no other command does.
func TestCommandHasTheTurnOfItsRequest(t *testing.T) {
	one, none := tenant.Want{Commands: 1}, tenant.Want{}
	begin := func(t *testing.T, a *Admission, ctx context.Context) func() {
		t.Helper()
		release, err := a.Begin(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	wait := func(t *testing.T, a *Admission, ctx context.Context) func() {
		t.Helper()
		release, err := a.Command(ctx, local, "a")
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	tests := map[string]func(t *testing.T, a *Admission, ctx context.Context){
		"command within its request": func(t *testing.T, a *Admission, ctx context.Context) {
			request := wait(t, a, ctx)
			command := begin(t, a, ctx)
			wantHeld(t, a, "a", one)
			command()
			wantHeld(t, a, "a", none)
			request()
		},
		"command that outlasts its request": func(t *testing.T, a *Admission, ctx context.Context) {
			request := wait(t, a, ctx)
			command := begin(t, a, context.WithoutCancel(ctx))
			request()
			request()
			wantHeld(t, a, "a", one)
			command()
		},
		"request that begins none": func(t *testing.T, a *Admission, ctx context.Context) {
			request := wait(t, a, ctx)
			wantHeld(t, a, "a", one)
			request()
			request()
		},
		"second command of a request": func(t *testing.T, a *Admission, ctx context.Context) {
			request := wait(t, a, ctx)
			first := begin(t, a, ctx)
			_, err := a.Begin(ctx, "a")
			wantExceeded(t, err, tenant.Commands, "tenant a")
			first()
			begin(t, a, ctx)()
			request()
		},
		"command without a request": func(t *testing.T, a *Admission, _ context.Context) {
			command := begin(t, a, t.Context())
			_, err := a.Begin(t.Context(), "a")
			wantExceeded(t, err, tenant.Commands, "tenant a")
			command()
		},
		"command after its request": func(t *testing.T, a *Admission, ctx context.Context) {
			wait(t, a, ctx)()
			command := begin(t, a, ctx)
			wantHeld(t, a, "a", one)
			command()
		},
		"command of another tenant": func(t *testing.T, a *Admission, ctx context.Context) {
			request := wait(t, a, ctx)
			release, err := a.Begin(ctx, "b")
			if err != nil {
				t.Fatal(err)
			}
			wantHeld(t, a, "a", one)
			wantHeld(t, a, "b", one)
			release()
			request()
		},
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			a := admission(t, Options{Rules: limited(tenant.NoLimits().With(tenant.Commands, 1))})
			run(t, a, WithCaller(t.Context(), local))
			wantHeld(t, a, "a", none)
			wantHeld(t, a, "b", none)
			if load := a.Load(); load.Held != 0 {
				t.Errorf("slots are left held: %+v", load)
			}
		})
	}
}

func TestCommandCountsForTheTokenOfItsRequest(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits())})
	quotas := map[string]tenant.Limits{"parent": tenant.NoLimits().With(tenant.Commands, 1)}
	ctx := WithCaller(t.Context(), bearing("a", quotas, "child", "parent"))
	release, err := a.Begin(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, err = a.Begin(WithCaller(t.Context(), bearing("a", quotas, "other", "parent")), "a")
	wantExceeded(t, err, tenant.Commands, "token parent")
}
