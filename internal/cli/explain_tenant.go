package cli

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// tenantText names the limits of a tenant that there are. They count for what
// is asked of the daemon.
func tenantText(r config.TenantRules) string {
	if r.Refused {
		return "the daemon refuses the tenant: tenants.list does not name it, and tenants.closed is true"
	}
	var out []string
	add := func(k tenant.Kind, text func(int64) string) {
		if n := r.Limits.Of(k); n != tenant.Unlimited {
			out = append(out, text(n))
		}
	}
	count := func(format string) func(int64) string {
		return func(n int64) string { return fmt.Sprintf(format, n) }
	}
	size := func(name string) func(int64) string {
		return func(n int64) string { return name + " " + config.Size(n).String() }
	}
	add(tenant.Sandboxes, count("sandboxes %d"))
	add(tenant.Commands, count("commands %d"))
	add(tenant.Memory, size("memory"))
	add(tenant.NanoCPUs, func(n int64) string { return fmt.Sprintf("cpus %g", float64(n)/1e9) })
	add(tenant.Disk, size("disk"))
	add(tenant.RequestsPerSecond, count("requests %d/s"))
	if r.Limits.RequestBurst > 0 {
		add(tenant.RequestBurst, count("burst %d"))
	}
	if out == nil {
		return unboundedText
	}
	return "of what the daemon does for the tenant: " + strings.Join(out, ", ")
}

// mediaText says where files that come in are taken from.
func mediaText(m manager.MediaPlan) string {
	if len(m.From) == 0 {
		return "none may be staged: media.folders names no folder for this tenant"
	}
	return fmt.Sprintf("up to %d files, %s each, %s together, from %s", m.MaxFiles, config.Size(m.MaxFile), config.Size(m.MaxTotal), strings.Join(m.From, ", "))
}
