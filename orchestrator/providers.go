package orchestrator

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A Registration adds a kind of sandbox to the built-in ones: settings name it
// by `"provider": NAME`, and everything that works with the built-in ones works
// with it.
type Registration struct {
	// Name is the word in settings. See [config.CheckProviderName] for its form;
	// that of a built-in provider is taken.
	Name string

	// New makes the provider, once, when the Orchestrator is opened. It must not wait
	// for anything far away: a provider that cannot be used now is one whose
	// calls fail with [sandbox.CodeUnavailable], not one that cannot be made. The
	// name of the provider has to be that of the registration.
	//
	// The provider has to be a [provider.Holder], so that no caller takes a setting
	// for held that it ignores. It may be a [provider.OptionChecker], without
	// which it has no options; a [provider.Prober], which failIfUnavailable asks;
	// a [provider.Planner], for explain; and an [io.Closer], which is closed once,
	// with the Orchestrator.
	New func(Deps) (sandbox.Provider, error)
}

// Deps are what a provider is made from.
type Deps struct {
	State    string // an absolute folder for this provider alone, which exists and is private to the user
	Instance string // of the state folder, as of [sandbox.Owner]

	// World returns the facts of this host now that [hardening.Check] needs,
	// which a provider has to ask about each Spec before it makes a sandbox.
	World func() hardening.World

	// Warn reports a problem of a sandbox that does not keep the sandbox from
	// working. It is never nil.
	Warn func(sandbox, warning string)
}

// namesOf returns the names of registrations. A malformed name, one that is used
// twice and that of a built-in provider are errors with
// [sandbox.CodeValidation].
func namesOf(list []Registration) ([]string, error) {
	refuse := func(i int, name, hint, format string, args ...any) error {
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "register provider", Field: fmt.Sprintf("Providers[%d].Name", i), Resource: name,
			Message: fmt.Sprintf(format, args...), Hint: hint,
		}
	}
	var names []string
	for i, r := range list {
		switch err := config.CheckProviderName(r.Name); {
		case err != nil:
			return nil, fmt.Errorf("house: Providers[%d]: %w", i, err)
		case slices.Contains(config.BuiltinProviders(), r.Name):
			return nil, refuse(i, r.Name, "give the provider another name", "%q is the name of a built-in provider", r.Name)
		case slices.Contains(names, r.Name):
			return nil, refuse(i, r.Name, "register each provider once", "%q is registered twice", r.Name)
		case r.New == nil:
			return nil, refuse(i, r.Name, "set New", "the registration of %q has no function that makes the provider", r.Name)
		}
		names = append(names, r.Name)
	}
	return names, nil
}

// providers makes the providers: the built-in ones, and those of the options in
// their order. Where one cannot be made, those before it are closed.
func (h *Orchestrator) makeProviders() (_ *provider.Set, err error) {
	all := []sandbox.Provider{h.containers(), h.local(), h.landlock(), h.pods(), provider.NewHost(os.Environ())}
	defer func() {
		if err != nil {
			closeAll(all)
		}
	}()
	for i, r := range h.o.Providers {
		p, err := h.register(r)
		if err != nil {
			return nil, fmt.Errorf("house: Providers[%d]: %w", i, err)
		}
		all = append(all, p)
	}
	return provider.New(all...)
}

// register makes the provider of one registration.
func (h *Orchestrator) register(r Registration) (sandbox.Provider, error) {
	fail := func(code sandbox.Code, hint, message string, cause error) error {
		return &sandbox.Error{Code: code, Op: "register provider", Field: "provider", Resource: r.Name, Message: message, Hint: hint, Err: cause}
	}
	d := Deps{
		State: filepath.Join(h.state.Path(), "providers", r.Name), Instance: h.state.Instance(), World: h.worldNow,
		Warn: func(name, warning string) { h.o.Log.WithField("sandbox", name).Warn(warning) },
	}
	if err := os.MkdirAll(d.State, 0o700); err != nil {
		return nil, fail(sandbox.CodeUnavailable, "check who owns the state folder", "the folder of the provider cannot be made", err)
	}
	p, err := r.New(d)
	switch {
	case err != nil && sandbox.CodeOf(err) != sandbox.CodeInternal:
		return nil, err
	case err != nil:
		return nil, fail(sandbox.CodeUnavailable, "", "the provider "+r.Name+" cannot be made", err)
	case p == nil:
		return nil, fail(sandbox.CodeValidation, "return a provider or an error", "New returned no provider", nil)
	}
	_, holds := p.(provider.Holder)
	switch {
	case p.Name() != r.Name:
		err = fail(sandbox.CodeValidation, "use one name for both", fmt.Sprintf("the provider calls itself %q", p.Name()), nil)
	case !holds:
		err = fail(sandbox.CodeValidation, "implement provider.Holder: Holds returns the settings that its sandboxes enforce", "the provider does not say which settings it enforces", nil)
	}
	if err != nil {
		closeAll([]sandbox.Provider{p})
		return nil, err
	}
	return p, nil
}

// closeAll closes the providers that can be closed.
func closeAll(all []sandbox.Provider) {
	for _, p := range all {
		if c, ok := p.(io.Closer); ok {
			c.Close()
		}
	}
}
