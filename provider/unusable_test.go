package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// TestUnusableFailsEveryCall holds that nothing of such a provider looks like
// success, absence of a sandbox least of all, and that auto passes it over.
func TestUnusableFailsEveryCall(t *testing.T) {
	bad := errors.New("bad address")
	p, ctx := provider.Unusable("docker", bad), context.Background()
	_, inspect := p.Inspect(ctx, "x")
	_, create := p.Create(ctx, sandbox.Spec{})
	_, open := p.Open(ctx, sandbox.Spec{})
	_, list := p.List(ctx, sandbox.Filter{})
	for name, err := range map[string]error{"inspect": inspect, "create": create, "open": open, "list": list, "remove": p.Remove(ctx, "x"), "trouble": provider.Trouble(p)} {
		if !errors.Is(err, bad) {
			t.Errorf("%s says %v", name, err)
		}
	}
	good := fake.New(fake.Options{Name: "local"})
	if err := provider.Trouble(good); err != nil {
		t.Errorf("another one: %v", err)
	}
	s, err := provider.New(p, good)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Auto(ctx, nil, "docker", "local")
	if err != nil || c.Provider.Name() != "local" || len(c.Rejected) != 1 {
		t.Errorf("auto takes %+v, %v", c, err)
	}
}
