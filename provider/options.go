package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bulkhead-dev/sandbox"
)

// OptionsField is the setting that holds the options of a provider.
const OptionsField = "providerOptions"

// An OptionChecker is a provider that has options of its own. CheckOptions
// returns nil if the provider takes all of options, which may be nil, and
// otherwise an error that [OptionError] makes. It reads nothing but options: the
// same options always get the same answer, on every machine. It must not change
// options.
//
// A provider that is no OptionChecker has no options.
type OptionChecker interface {
	CheckOptions(options map[string]any) error
}

// OptionError returns the error for the option key: a [*sandbox.Error] with
// [sandbox.CodeValidation] whose Field is "providerOptions.KEY". The hint says
// what would be accepted; it may be empty.
func OptionError(key, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read options", Field: OptionsField + "." + key, Message: message, Hint: hint}
}

// CheckOptions asks p whether it takes options. Any option is refused for a
// provider that is no [OptionChecker]. An error of the provider that is no
// [*sandbox.Error] with [sandbox.CodeValidation] becomes the cause of one.
func CheckOptions(p sandbox.Provider, options map[string]any) error {
	c, ok := p.(OptionChecker)
	if !ok {
		return NoOptions(p.Name(), options)
	}
	err := c.CheckOptions(options)
	if err == nil || sandbox.CodeOf(err) == sandbox.CodeValidation {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read options", Field: OptionsField, Resource: p.Name(),
		Message: fmt.Sprintf("the provider %s does not take the options", p.Name()), Err: err,
	}
}

// NoOptions refuses the first option, by name, for the provider name, which has
// none.
func NoOptions(name string, options map[string]any) error {
	if len(options) == 0 {
		return nil
	}
	key := slices.Min(slices.Collect(maps.Keys(options)))
	return OptionError(key, "the provider "+name+" has no such option", "it has no options at all: remove "+OptionsField+", or name another provider")
}

// TakesOptions reports whether p takes options, see [CheckOptions].
func TakesOptions(p sandbox.Provider, options map[string]any) bool {
	return CheckOptions(p, options) == nil
}

// CheckAutoOptions checks options that are for whichever provider [Set.Auto]
// chooses of order: one of them has to take all. Those that the set does not
// have, and those that cannot be used here at all, are passed over. The error is that of the provider that came closest,
// which is the last one that has options.
func (s *Set) CheckAutoOptions(options map[string]any, order ...string) error {
	if len(options) == 0 {
		return nil
	}
	var refused, closest error
	for _, name := range order {
		p, ok := s.byName[name]
		if !ok || Trouble(p) != nil {
			continue
		}
		err := CheckOptions(p, options)
		if err == nil {
			return nil
		}
		if _, has := p.(OptionChecker); has {
			closest = err
		}
		refused = errors.Join(refused, err)
	}
	if closest != nil {
		return closest
	}
	return refused
}
