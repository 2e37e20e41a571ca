package running

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// managed is a manager as a manager client.
type managed struct{ *manager.Manager }

// Managed returns m as a [Manager].
func Managed(m *manager.Manager) Manager { return managed{m} }

// OpenShell implements [Manager].
func (m managed) OpenShell(ctx context.Context, req manager.Request, o sandbox.ShellOptions) (Shell, error) {
	s, err := m.Manager.OpenShell(ctx, req, o)
	if err != nil {
		return nil, err // s would be a shell that is not nil
	}
	return s, nil
}
