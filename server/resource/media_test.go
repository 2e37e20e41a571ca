package resource_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

func TestStage(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"local", "docker"} {
		t.Run(wall, func(t *testing.T) {
			if wall == "docker" {
				testenv.Exhaustive(t, "the same over another provider")
			}
			inboxes := filepath.Join(t.TempDir(), "inboxes")
			inbox := filepath.Join(inboxes, "acme")
			outside := filepath.Join(t.TempDir(), "secret")
			for _, err := range []error{
				os.MkdirAll(inbox, 0o755), os.WriteFile(filepath.Join(inbox, "a photo.txt"), []byte("picture"), 0o644), os.WriteFile(outside, []byte("no"), 0o644),
				os.Symlink(outside, filepath.Join(inbox, "link")),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			settings := `{"agents": {"defaults": {"sandbox": {"provider": "` + wall + `"}}}, "media": {"folders": ["` + inboxes + `/{tenant}"]}}`
			r := served.New(t, served.Options{Wall: wall, Settings: settings, Resources: func(r *served.Rig) []resource.Resource {
				return []resource.Resource{resource.NewMedia(r.Manager)}
			}})
			at := "/v1/sandboxes/" + r.Ready("acme", "s1") + "/media"
			ref := filepath.Join(inbox, "a photo.txt")
			got := served.JSON[api.StagedMedia](t, r.Want(200, "acme", "POST", at, `{"refs":["`+ref+`"]}`))
			if len(got.Items) != 1 || got.Items[0].Size != 7 || !strings.HasPrefix(got.Items[0].Path, "/workspace/media/inbound/") {
				t.Fatalf("%+v", got)
			}
			if text := r.Run("acme", "s1", "cat '"+got.Items[0].Path+"'"); text != "picture" {
				t.Errorf("%q", text)
			}
			for _, tt := range []struct {
				as, body string
				status   []int
			}{
				{"acme", `{"refs":["` + outside + `"]}`, []int{403}}, {"acme", `{"refs":["` + filepath.Join(inbox, "link") + `"]}`, []int{403}},
				{"acme", `{"refs":["` + inbox + `/../secret"]}`, []int{403, 404, 422}}, {"acme", `{"refs":["` + filepath.Join(inbox, "none") + `"]}`, []int{404}},
				{"acme", `{"refs":["scp://elsewhere.test/x"]}`, []int{403}}, {"acme", `{"refs":[]}`, []int{422}}, {"acme", `{}`, []int{422}},
				{"acme-s1", `{"refs":["` + ref + `"]}`, []int{403}}, {"evil", `{"refs":["` + ref + `"]}`, []int{404}}, {"nobody", `{}`, []int{401}},
			} {
				a := r.Ask(tt.as, "POST", at, tt.body)
				ok := false
				for _, s := range tt.status {
					ok = ok || s == a.Status
				}
				if !ok {
					t.Errorf("%s %s: %d %s", tt.as, tt.body, a.Status, a.Body)
				}
			}
		})
	}
}
