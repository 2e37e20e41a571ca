package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// A tardy is a sandbox in memory whose handles tell whether they answer.
type tardy struct {
	sandbox.Provider
	late atomic.Bool // the next sign of life does not come in time
	gone atomic.Bool // who was asked by then hears that the guest is there no more
	open atomic.Int64
}

func (p *tardy) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	inner, err := p.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	return &tardyBox{Sandbox: inner, wall: p}, nil
}

type tardyBox struct {
	sandbox.Sandbox
	wall *tardy
	lost atomic.Bool
}

func (b *tardyBox) Ping(ctx context.Context) error {
	if b.wall.late.Swap(false) {
		b.lost.Store(b.wall.gone.Swap(false))
		<-ctx.Done()
		return ctx.Err()
	}
	if b.lost.Load() {
		return errors.New("the guest is gone")
	}
	return nil
}

// TestShellOutlastsASilence holds that a sandbox which once answers too late, as
// on a busy machine, takes no shell away: neither what it holds nor what runs in
// it. Where the guest has gone, or other things are wanted, a new one is opened.
func TestShellOutlastsASilence(t *testing.T) {
	t.Parallel()
	parsed := func(text string) *config.Settings {
		s, err := config.Parse("test", []byte(text))
		must(t, err)
		return s
	}
	for _, tt := range []struct {
		name       string
		late, gone bool
		then       string // the settings
		stays      bool
	}{
		{"late", true, false, `{}`, true},
		{"gone", true, true, `{}`, false},
		{"with other limits", false, false, `{"agents": {"defaults": {"sandbox": {"limits": {"cpuSeconds": 7}}}}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, p, now := newMachine(t), &tardy{}, parsed(`{}`)
			p.Provider, c.local = c.local, p
			c.reload = func() (*config.Settings, error) { return now, nil }
			s := openShell(t, c.manager(`{}`, "local"), who("late"))
			expect(t, s, "x=1", "", false)
			if tt.then != `{}` {
				now = parsed(tt.then)
			}
			p.gone.Store(tt.gone)
			p.late.Store(tt.late)
			want := map[bool]string{true: "1", false: ""}[tt.stays]
			expect(t, s, "echo $x", want, !tt.stays)
			if p.late.Load() {
				t.Error("control: nobody was asked for a sign of life")
			}
			expect(t, s, "echo $x", want, false)
			if got := p.open.Load(); got != 2 {
				t.Errorf("%d handles were opened, want one more", got)
			}
		})
	}
}
