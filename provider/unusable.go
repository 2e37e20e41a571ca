package provider

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
)

// Unusable stands for a provider that cannot be set up here: every call of
// it fails with err, so that only those who want it hear of it.
func Unusable(name string, err error) sandbox.Provider { return unusable{name, err} }

// Trouble is the error of an [Unusable] provider, and nil of any other: who
// begins with something else than a call of it asks first.
func Trouble(p sandbox.Provider) error {
	if u, ok := p.(unusable); ok {
		return u.err
	}
	return nil
}

type unusable struct {
	name string
	err  error
}

func (u unusable) Name() string                { return u.name }
func (u unusable) Features() sandbox.Features  { return sandbox.Features{} }
func (u unusable) Probe(context.Context) error { return u.err }

// CheckOptions takes all options: which ones the provider has is not known, and
// the first call of it says why it cannot be used.
func (u unusable) CheckOptions(map[string]any) error { return nil }
func (u unusable) Inspect(context.Context, string) (sandbox.Info, error) {
	return sandbox.Info{}, u.err
}
func (u unusable) Create(context.Context, sandbox.Spec) (sandbox.Info, error) {
	return sandbox.Info{}, u.err
}
func (u unusable) Open(context.Context, sandbox.Spec) (sandbox.Sandbox, error) { return nil, u.err }
func (u unusable) List(context.Context, sandbox.Filter) ([]sandbox.Info, error) {
	return nil, u.err
}
func (u unusable) Remove(context.Context, string) error { return u.err }
