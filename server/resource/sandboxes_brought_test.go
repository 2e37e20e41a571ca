package resource

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

func TestAnswersTellHowASandboxCameUp(t *testing.T) {
	t.Parallel()
	row := manager.Row{}
	row.Name = "sbx-one"
	for _, p := range []manager.Prepared{
		{},
		{Created: true},
		{Created: true, Claimed: true},
		{Created: true, Miss: &pool.Miss{Reason: pool.Empty, Detail: "none is ready", MadeMS: 812}},
	} {
		got := brought(&Call{}, row, p)
		if got.Name != "sbx-one" || got.Created != p.Created || got.Claimed != p.Claimed || got.Miss != p.Miss || p.Miss != nil && got.Note != p.Miss.Detail {
			t.Errorf("%+v became %+v", p, got)
		}
	}
}
