package manager

import (
	"reflect"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

func TestDescriptions(t *testing.T) {
	resolve := func(text string) config.Resolved {
		t.Helper()
		s, err := config.Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		res, err := config.Resolve(s, config.Who{Agent: "main", Session: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	facts := func() config.Facts {
		return config.Facts{
			Instance: "i", UID: 1000, Workspace: "/w", Exposed: []string{"/a"},
			Canonical: map[string]string{"/link": "/a"}, Via: map[string][]string{"/link": {"/link", "/a"}},
		}
	}
	spec := func() sandbox.Spec {
		return sandbox.Spec{
			Name: "sbx-s", Env: map[string]string{"A": "1"}, Mounts: []sandbox.Mount{{Source: "/w", Target: "/workspace"}},
			Security: sandbox.Security{CapDrop: []string{"ALL"}}, Options: map[string]any{"list": []any{"x"}},
		}
	}
	res, key := resolve("{}"), descriptionKey{provider: "docker", identity: "sbx-s"}
	var d descriptions
	if _, _, ok := d.get(key, res, facts()); ok {
		t.Fatal("something is known before it was put")
	}
	d.put(key, description{res: res, facts: facts(), spec: spec(), hash: "h"})

	got, hash, ok := d.get(key, res, facts())
	if !ok || hash != "h" || !reflect.DeepEqual(got, spec()) {
		t.Fatalf("got %v, %q, %t of what was put", got, hash, ok)
	}
	// Providers delete variables from theirs, and append to lists.
	delete(got.Env, "A")
	got.Mounts[0].Source, got.Security.CapDrop[0] = "/etc", "NONE"
	got.Options["list"].([]any)[0] = "y"
	if got, _, _ = d.get(key, res, facts()); !reflect.DeepEqual(got, spec()) {
		t.Errorf("a caller has changed what is kept: %v", got)
	}

	for what, change := range map[string]func(*descriptionKey, *config.Resolved, *config.Facts){
		"a folder that is another now": func(_ *descriptionKey, _ *config.Resolved, f *config.Facts) { f.Canonical["/link"] = "/etc" },
		"a way that leads elsewhere":   func(_ *descriptionKey, _ *config.Resolved, f *config.Facts) { f.Via["/link"][1] = "/b" },
		"a folder that is exposed":     func(_ *descriptionKey, _ *config.Resolved, f *config.Facts) { f.Exposed = nil },
		"another user":                 func(_ *descriptionKey, _ *config.Resolved, f *config.Facts) { f.UID++ },
		"another image":                func(_ *descriptionKey, _ *config.Resolved, f *config.Facts) { f.ImageID = "sha256:b" },
		"a socket that listens":        func(_ *descriptionKey, _ *config.Resolved, f *config.Facts) { f.Listening = []string{"/s"} },
		"other settings": func(_ *descriptionKey, r *config.Resolved, _ *config.Facts) {
			*r = resolve(`{"agents":{"defaults":{"sandbox":{"docker":{"pidsLimit":99}}}}}`)
		},
		"another provider": func(k *descriptionKey, _ *config.Resolved, _ *config.Facts) { k.provider = "local" },
		"another slot":     func(k *descriptionKey, _ *config.Resolved, _ *config.Facts) { k.identity = "sbx-pool-1" },
	} {
		k, r, f := key, res, facts()
		change(&k, &r, &f)
		if _, _, ok := d.get(k, r, f); ok {
			t.Errorf("%s: the description from before is taken", what)
		}
	}
}

// TestDescriptionIsKept holds that equal settings and facts are found equal,
// which a function or a NaN among them would prevent.
func TestDescriptionIsKept(t *testing.T) {
	res, err := config.Resolve(nil, config.Who{Agent: "main", Session: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Resolve(nil, config.Who{Agent: "main", Session: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(res, again) {
		t.Error("the same settings differ, so that nothing is ever taken from memory")
	}
}
