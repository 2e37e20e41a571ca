package doctor

import "context"

// The names of the providers, as settings write them.
const (
	providerDocker = "docker"
	providerLocal  = "local"
	providerAuto   = "auto"

	providerKubernetes = "kubernetes"
)

// quotaCheck is about workspaces on this machine.
const quotaCheck = "workspace-quota"

// wanted is the provider that the settings name; when they cannot be read in
// time it is the default.
func (e *examination) wanted(ctx context.Context) string {
	answer := make(chan string, 1)
	go func() {
		s, err := e.settings()
		if err != nil || s.Provider == "" {
			s.Provider = providerDocker
		}
		answer <- s.Provider
	}()
	select {
	case name := <-answer:
		return name
	case <-ctx.Done():
		return providerDocker
	}
}

// excuse turns failures of a provider that the settings do not want into
// warnings: they are worth knowing, and nothing fails for them. With auto one
// provider that works is enough; when none does, both have failed.
func (r Report) excuse(list []check, wanted string) {
	failed := map[string]bool{}
	for i, c := range list {
		failed[c.wall] = failed[c.wall] || r.Checks[i].Status == Fail
	}
	if wanted == providerAuto && failed[providerDocker] && failed[providerLocal] {
		return
	}
	for i, c := range list {
		check := &r.Checks[i]
		switch {
		case c.wall == "" || c.wall == wanted:
		case check.Status == Fail:
			check.Status = Warn
			check.Detail += "; the provider " + wanted + " does without it"
		}
	}
}

// only leaves out the checks of the providers of this machine where sandboxes are
// pods: it need not have what those need, and no workspace lies on it.
func (r *Report) only(list []check, wanted string) {
	if wanted != providerKubernetes {
		return
	}
	var kept []Check
	for i, c := range list {
		if c.wall == "" && c.name != quotaCheck || c.wall == wanted {
			kept = append(kept, r.Checks[i])
		}
	}
	r.Checks = kept
}
