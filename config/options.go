package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// autoProvider is the value of provider that leaves the choice to the program.
const autoProvider = "auto"

// ownOptions returns the layers without the options of another provider than the
// one in force: options belong to the provider that the layer of theirs, or the
// strongest one below it, names. Where that is "auto", or where no layer names a
// provider, they are kept for whichever provider is in force. The result of of
// is the name to which they belong, empty where no layer names one.
func ownOptions(layers []layer) (kept []layer, of string, ignored []Notice) {
	named, at := "", -1
	for i, l := range layers {
		if p := l.settings.Provider; p != nil && l.name != "default" {
			named = *p
		}
		if l.settings.ProviderOptions != nil {
			of, at = named, i
		}
	}
	if at < 0 || of == "" || of == autoProvider || of == named || len(layers[at].settings.ProviderOptions) == 0 {
		return layers, of, nil
	}
	kept = slices.Clone(layers)
	for i, l := range kept {
		if l.settings.ProviderOptions != nil {
			without := *l.settings
			without.ProviderOptions = nil
			kept[i].settings = &without
		}
	}
	return kept, "", []Notice{{
		Path: layers[at].path + ".providerOptions", Value: optionNames(layers[at].settings.ProviderOptions),
		Why: fmt.Sprintf("they are options of the provider %s, and the provider in force is %s", of, named),
	}}
}

// optionNames writes the names of options as JSON. Their values may be secrets.
func optionNames(options map[string]any) string {
	b, err := json.Marshal(slices.Sorted(maps.Keys(options)))
	if err != nil {
		return ""
	}
	return string(b)
}

// OptionsNotice says of the options of r that they have no effect, and why.
func (r Resolved) OptionsNotice(why string) Notice {
	return Notice{Path: r.field("providerOptions"), Value: optionNames(r.ProviderOptions), Why: why}
}
