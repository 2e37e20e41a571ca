package config

import "slices"

// Providers lists the providers that the settings name for somebody, "auto"
// among them. Settings that name none mean the default.
func Providers(s *Settings) []string {
	var out []string
	for _, who := range everybody(s) {
		r, err := Resolve(s, who, nil)
		if err == nil && !slices.Contains(out, r.Provider) {
			out = append(out, r.Provider)
		}
	}
	return out
}

// everybody is one session of each agent that the settings list, and of one
// that they do not.
func everybody(s *Settings) []Who {
	out := []Who{{Agent: DefaultAgent, Session: DefaultSession}}
	if s == nil || s.Agents == nil {
		return out
	}
	for _, a := range s.Agents.List {
		if a.ID != nil && *a.ID != DefaultAgent {
			out = append(out, Who{Agent: *a.ID, Session: DefaultSession})
		}
	}
	return out
}
