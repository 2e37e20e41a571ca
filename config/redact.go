package config

// Mask stands for a value that is not shown.
const Mask = "***"

// A Variable is one variable of a sandbox's environment.
type Variable struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Variables returns the environment sorted by name, with the layer of each.
func (r Resolved) Variables() []Variable {
	out := make([]Variable, 0, len(r.Docker.Env))
	for _, name := range sortedKeys(r.Docker.Env) {
		out = append(out, Variable{Name: name, Value: r.Docker.Env[name], Origin: r.Origin(join("docker.env", name))})
	}
	return out
}

// Redact returns r with every value of the environment that did not come from
// the defaults replaced by [Mask], and likewise every value of providerOptions
// and every argument of a program that prints a secret.
// What is shown to people goes through it unless they ask for the values.
func (r Resolved) Redact() Resolved {
	env := make(map[string]string, len(r.Docker.Env))
	for name, value := range r.Docker.Env {
		if r.Origin(join("docker.env", name)) != "default" {
			value = Mask
		}
		env[name] = value
	}
	r.Docker.Env = env
	if r.Network.Secrets != nil {
		secrets := make(map[string]SecretSettings, len(r.Network.Secrets))
		for name, s := range r.Network.Secrets {
			secrets[name] = s.redacted()
		}
		r.Network.Secrets = secrets
	}
	if r.ProviderOptions != nil {
		options := make(map[string]any, len(r.ProviderOptions))
		for name := range r.ProviderOptions {
			options[name] = Mask
		}
		r.ProviderOptions = options
	}
	return r
}

func (s SecretSettings) redacted() SecretSettings {
	if len(s.From.Command) > 1 {
		s.From.Command = []string{s.From.Command[0], Mask}
	}
	return s
}
