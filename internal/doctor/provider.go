package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// noSandbox is a name that no sandbox has.
const noSandbox = "sbx-doctor"

// ProviderCheck returns the check of a provider that a program has beside the
// built-in ones: whether it takes these options, as providerOptions has them,
// and whether it answers. Its name is "provider-NAME".
func ProviderCheck(p sandbox.Provider, options map[string]any) WallCheck {
	return WallCheck{Name: "provider-" + p.Name(), Provider: p.Name(), Look: func(ctx context.Context) (Status, string, string) {
		if err := provider.CheckOptions(p, options); err != nil {
			return failed(err)
		}
		if _, probes := p.(provider.Prober); probes {
			if err := provider.Probe(ctx, p, options); err != nil {
				return failed(err)
			}
		} else if _, err := p.Inspect(ctx, noSandbox); err != nil && !sandbox.IsNotFound(err) {
			return failed(err)
		}
		h, ok := p.(provider.Holder)
		if !ok {
			return OK, "it answers", ""
		}
		var held []string
		for _, name := range h.Holds() {
			held = append(held, string(name))
		}
		if len(held) == 0 {
			return Warn, "it answers, and enforces no setting", "implement Holds for what its sandboxes enforce"
		}
		return OK, "it answers, and enforces " + strings.Join(held, ", "), ""
	}}
}

// OptionsCheck returns the check of providerOptions for a built-in provider
// without any.
func OptionsCheck(name string, options map[string]any) WallCheck {
	return WallCheck{Name: "provider-options", Provider: name, Look: func(context.Context) (Status, string, string) {
		if err := provider.NoOptions(name, options); err != nil {
			return failed(err)
		}
		return OK, fmt.Sprintf("the provider %s has none, and the settings give none", name), ""
	}}
}

// failed is the finding of what the provider said.
func failed(err error) (Status, string, string) {
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		return Fail, err.Error(), ""
	}
	said := *e
	said.Hint = ""
	if said.Code == sandbox.CodeValidation && said.Field != "" {
		return Fail, said.Field + ": " + said.Message, e.Hint
	}
	return Fail, said.Error(), e.Hint
}
