package manager

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/config"
)

// settingsOf lists every effective value with its layer, sorted by path.
// Secret values are masked.
func settingsOf(res config.Resolved) []Setting {
	b, err := json.Marshal(res.Redact().Values)
	if err != nil {
		return nil // plain data always marshals
	}
	var tree map[string]any
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil
	}
	var out []Setting
	flatten("", tree, func(path, value string) {
		out = append(out, Setting{Path: path, Value: value, Layer: res.Origin(path)})
	})
	slices.SortFunc(out, func(a, b Setting) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// flatten calls leaf for everything below v that is no object.
func flatten(path string, v any, leaf func(path, value string)) {
	if m, ok := v.(map[string]any); ok {
		for k, sub := range m {
			flatten(strings.TrimPrefix(path+"."+k, "."), sub, leaf)
		}
		return
	}
	if s, ok := v.(string); ok {
		leaf(path, s)
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("?")
	}
	leaf(path, string(b))
}
