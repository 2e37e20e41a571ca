package manager

import (
	"cmp"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A MediaPlan says which files of outside may be staged in a session's
// workspace. See [Manager.Stage].
type MediaPlan struct {
	From           []string `json:"from"`           // folders, and scp://HOST/FOLDER of other machines
	MaxFile        int64    `json:"maxFile"`        // bytes
	MaxTotal       int64    `json:"maxTotal"`       // bytes of one call
	MaxFiles       int      `json:"maxFiles"`       // of one call
	TimeoutSeconds float64  `json:"timeoutSeconds"` // of one call
}

// explainTenant fills in what the settings say about the tenant.
func (e *Explanation) explainTenant(s *config.Settings, tenant string) {
	e.TenantLimits = config.TenantsOf(s).Of(tenant)
	m := config.MediaOf(s, tenant)
	e.Media = MediaPlan{
		From:           append([]string{}, m.Folders...),
		MaxFile:        cmp.Or(m.MaxFile, workspace.DefaultMaxFile),
		MaxTotal:       cmp.Or(m.MaxTotal, workspace.DefaultMaxTotal),
		MaxFiles:       cmp.Or(m.MaxFiles, workspace.DefaultMaxFiles),
		TimeoutSeconds: cmp.Or(m.Timeout, workspace.DefaultTimeout).Seconds(),
	}
	for _, r := range m.Remote {
		for _, folder := range r.Folders {
			e.Media.From = append(e.Media.From, remoteScheme+r.Host+folder)
		}
	}
}

// remoteScheme begins the reference to a file on another machine.
const remoteScheme = "scp://"
