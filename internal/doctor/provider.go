package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// OptionsCheck returns the check of providerOptions for a built-in provider
// without any.
func OptionsCheck(name string, options map[string]any) ProviderCheck {
	return ProviderCheck{Name: "provider-options", Provider: name, Look: func(context.Context) (Status, string, string) {
		if err := provider.NoOptions(name, options); err != nil {
			return failed(err)
		}
		return OK, fmt.Sprintf("the provider %s has none, and the settings give none", name), ""
	}}
}

// Broken returns a check of the provider that fails with err.
func Broken(name, of string, err error) ProviderCheck {
	return ProviderCheck{Name: name, Provider: of, Look: func(context.Context) (Status, string, string) { return failed(err) }}
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
