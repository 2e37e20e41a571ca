package remote_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/server/remote"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// TestFlagsNameAProviderOfTheProgram holds that a call may name each provider
// that the program of the daemon has, and no other one.
func TestFlagsNameAProviderOfTheProgram(t *testing.T) {
	var set *provider.Set
	r := served.New(t, served.Options{Change: func(o *manager.Options) {
		local, err := o.Providers.Get("local")
		if err != nil {
			t.Fatal(err)
		}
		if set, err = provider.New(local, fake.New(fake.Options{Name: "daytona"})); err != nil {
			t.Fatal(err)
		}
		o.Providers, o.Settings.Providers = set, []string{"daytona"}
	}, Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{remote.New(r.Manager, stream.Options{})}
	}})
	for name, want := range map[string]string{
		"daytona": `"type":"exit"`, "local": `"type":"exit"`,
		"daytoma": "docker, local, auto, fake, daytona", "../x": "docker, local, auto, fake", "host": "docker, local, auto, fake",
	} {
		ctx, conn := attach(t, r, "root", "of-"+name, `{"args":["true"],"noStdin":true,"extra":{"flags":{"settings":{"provider":"`+name+`"}}}}`)
		if _, text := last(ctx, t, conn); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
	p, err := set.Get("daytona")
	if err != nil {
		t.Fatal(err)
	}
	if infos, err := p.List(t.Context(), sandbox.Filter{}); err != nil || len(infos) != 1 {
		t.Errorf("the provider has %d sandboxes, %v", len(infos), err)
	}
}
