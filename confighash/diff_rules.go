package confighash

import (
	sandbox "github.com/bulkhead-dev/sandbox"
)

func (d *differ) rules(a, b sandbox.Spec) {
	f, g := a.Filesystem, b.Filesystem
	d.list("filesystem.allowRead", f.AllowRead, g.AllowRead, shrunk)
	d.list("filesystem.denyRead", f.DenyRead, g.DenyRead, grown)
	d.list("filesystem.allowWrite", f.AllowWrite, g.AllowWrite, shrunk)
	d.list("filesystem.denyWrite", f.DenyWrite, g.DenyWrite, grown)
	d.list("filesystem.denyRead that allowRead opens", f.YieldRead, g.YieldRead, shrunk)
	d.list("filesystem.allowRead inside denyRead", f.ReopenRead, g.ReopenRead, shrunk)
	d.list("filesystem.allowWrite inside denyRead", f.ReopenWrite, g.ReopenWrite, shrunk)
	d.list("filesystem.allowUnixSockets", f.AllowUnixSockets, g.AllowUnixSockets, shrunk)
}
