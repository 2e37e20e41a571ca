package sandboxes

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/daemon/route"
	"github.com/bulkhead-dev/sandbox/manager"
)

func TestAnswersTellHowASandboxCameUp(t *testing.T) {
	row := manager.Row{}
	row.Name = "sbx-one"
	for _, p := range []manager.Prepared{
		{},
		{Created: true},
		{Created: true, Claimed: true},
		{Created: true, Cold: "none is ready"},
	} {
		got := brought(&route.Call{}, row, p)
		if got.Name != "sbx-one" || got.Created != p.Created || got.Claimed != p.Claimed || got.Note != p.Cold {
			t.Errorf("%+v became %+v", p, got)
		}
	}
}
