package container

import (
	"regexp"
	"time"

	"github.com/docker/docker/api/types/filters"

	"github.com/bulkhead-dev/sandbox"
)

// Labels hold only what never changes in a container's life; the engine
// cannot change a label after creation.
const (
	labelPrefix = "dev.bulkhead.sandbox."

	labelInstance  = labelPrefix + "instance"
	labelTenant    = labelPrefix + "tenant"
	labelKind      = labelPrefix + "kind"
	labelScope     = labelPrefix + "scope"
	labelScopeKey  = labelPrefix + "scope-key"
	labelAgent     = labelPrefix + "agent"
	labelSession   = labelPrefix + "session"
	labelHash      = labelPrefix + "config-hash"
	labelCreatedAt = labelPrefix + "created-at"
	labelFormat    = labelPrefix + "format"
)

var instanceID = regexp.MustCompile(`^[0-9a-f]{16}$`)

func toLabels(s sandbox.Spec, hash string, now time.Time) map[string]string {
	return map[string]string{
		labelInstance:  s.Owner.Instance,
		labelTenant:    s.Owner.Tenant,
		labelKind:      string(s.Kind),
		labelScope:     string(s.Owner.Scope),
		labelScopeKey:  s.Owner.ScopeKey,
		labelAgent:     s.Owner.Agent,
		labelSession:   s.Owner.Session,
		labelHash:      hash,
		labelCreatedAt: now.UTC().Format(time.RFC3339Nano),
		labelFormat:    sandbox.InfoFormat,
	}
}

// fromLabels reads what we wrote. Labels of which a part is missing are not
// ours: a container inherits its image's labels, and an image can carry some.
func fromLabels(l map[string]string) sandbox.Info {
	if !instanceID.MatchString(l[labelInstance]) || l[labelKind] == "" || l[labelHash] == "" || parseTime(l[labelCreatedAt]).IsZero() {
		return sandbox.Info{Provider: "docker"}
	}
	return sandbox.Info{
		Kind:     sandbox.Kind(l[labelKind]),
		Provider: "docker",
		Owner: sandbox.Owner{
			Instance: l[labelInstance],
			Tenant:   l[labelTenant],
			Agent:    l[labelAgent],
			Session:  l[labelSession],
			Scope:    sandbox.Scope(l[labelScope]),
			ScopeKey: l[labelScopeKey],
		},
		ConfigHash: l[labelHash],
		Format:     l[labelFormat],
		CreatedAt:  parseTime(l[labelCreatedAt]),
	}
}

func filterArgs(f sandbox.Filter) filters.Args {
	args := filters.NewArgs(filters.Arg("label", labelFormat))
	for label, value := range map[string]string{labelInstance: f.Instance, labelTenant: f.Tenant, labelKind: string(f.Kind)} {
		if value != "" {
			args.Add("label", label+"="+value)
		}
	}
	if f.Name != "" {
		args.Add("name", "^/?"+f.Name+"$")
	}
	return args
}
