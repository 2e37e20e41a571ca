package pool_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

func TestDiffer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*sandbox.Spec)
		reason pool.Reason
		fields []string
	}{
		{"nothing", func(*sandbox.Spec) {}, "", nil},
		{"another tenant", func(s *sandbox.Spec) { s.Owner.Tenant = "u" }, "", nil},
		{"the image is another now", func(s *sandbox.Spec) { s.ImageID = "sha256:2" }, pool.ImageChanged, []string{"docker.image"}},
		{"another image", func(s *sandbox.Spec) { s.Image, s.ImageID = "img:2", "sha256:2" }, pool.Differs, []string{"docker.image"}},
		{"the image and more", func(s *sandbox.Spec) { s.ImageID, s.Network = "sha256:2", "bridge" }, pool.Differs, []string{"docker.image", "docker.network"}},
		{"a field that is told twice", func(s *sandbox.Spec) { s.OnStart = []string{"SECRET=x"} }, pool.Differs, []string{"docker.onStart"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec("sbx-1")
			tt.change(&s)
			miss, differs := pool.Differ(slot(), s)
			if differs != (tt.reason != "") || miss.Reason != tt.reason || !slices.Equal(miss.Fields, tt.fields) {
				t.Errorf("%+v, %v", miss, differs)
			}
			for _, f := range tt.fields {
				if !strings.Contains(miss.Detail, f) || strings.Contains(miss.Detail, "SECRET") {
					t.Errorf("the detail is %q", miss.Detail)
				}
			}
		})
	}
}

// TestReasons checks that each reason has a text, and that its word is one of
// those that the documented interfaces list.
func TestReasons(t *testing.T) {
	f, _ := reflect.TypeFor[pool.Miss]().FieldByName("Reason")
	words := strings.Split(f.Tag.Get("enum"), ",")
	if len(words) != len(pool.Reasons()) {
		t.Errorf("%d words for %d reasons", len(words), len(pool.Reasons()))
	}
	wanted := 0
	for _, r := range pool.Reasons() {
		m := pool.NewMiss(r, "", "docker.memory")
		if !slices.Contains(words, string(r)) || m.Detail == "" || m.Detail == string(r) || m.String() != m.Detail {
			t.Errorf("%q: %+v", r, m)
		}
		if r.Wanted() {
			wanted++
		}
	}
	if wanted != 6 || pool.Reason("").Wanted() || pool.Differs.Wanted() || !pool.Empty.Wanted() {
		t.Errorf("%d reasons count as demand", wanted)
	}
	if m := pool.NewMiss(pool.Empty, "because").Took(1500 * time.Millisecond); m.MadeMS != 1500 || m.Detail != "because" {
		t.Errorf("%+v", m)
	}
	if m := pool.NewMiss(pool.Empty, "").Took(-time.Second); m.MadeMS != 0 {
		t.Errorf("%+v", m)
	}
}
