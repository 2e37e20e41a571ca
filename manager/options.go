package manager

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/provider"
)

// autoOrder are the providers that "auto" chooses from, the preferred one first.
// Landlock is among them only where settings say so by an option: it isolates less.
func autoOrder(options map[string]any) []string {
	order := []string{"docker", "local"}
	if allowed, _ := options["auto"].(bool); allowed {
		order = append(order, "landlock")
	}
	return order
}

// optionsOf returns the options of res for the provider p, which was chosen for
// it. An option that p does not take is an error, unless the settings leave the
// choice of the provider to "auto", there or where the options stand, or name
// another one than p: such options are for the provider that has them, and p
// gets none of them.
func optionsOf(res config.Resolved, p sandbox.Provider) (map[string]any, error) {
	err := provider.CheckOptions(p, res.ProviderOptions)
	if err != nil && (res.OptionsFor == provider.AutoName || res.Provider != p.Name()) {
		return nil, nil
	}
	return res.ProviderOptions, err
}

// optionsWithoutEffect says that the options of res are for another provider
// than p.
func optionsWithoutEffect(res config.Resolved, p sandbox.Provider) []config.Notice {
	if len(res.ProviderOptions) == 0 || provider.TakesOptions(p, res.ProviderOptions) {
		return nil
	}
	return []config.Notice{res.OptionsNotice(fmt.Sprintf("the provider in use is %s, which does not have all of these options, so it gets none of them", p.Name()))}
}
