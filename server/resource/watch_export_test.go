package resource

import "context"

// Still waits for a turn at a sandbox: until leave is called no watch scans it.
func (x *WatchResource) Still(ctx context.Context, name string) (leave func(), err error) {
	return x.looks.Enter(ctx, name)
}
