package config_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// settingsPages are the pages with the tables of all settings, which are too
// long for one.
const settingsPages = "../docs/settings*.md"

var settingsTable = regexp.MustCompile(`(?s)(<!-- settings: ([A-Za-z$ ]+) -->\n).*?(<!-- end -->)`)

// TestSettingsPages checks that docs/settings*.md have each setting once, as
// the JSON Schema describes it. A comment "settings: network limits" begins the
// table of these groups, and "end" ends it. With -update the tables are written
// anew.
func TestSettingsPages(t *testing.T) {
	rows := settingRows(t)
	pages, err := filepath.Glob(settingsPages)
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	where := map[string]string{}
	for _, path := range pages {
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := settingsTable.ReplaceAllStringFunc(string(have), func(table string) string {
			parts := settingsTable.FindStringSubmatch(table)
			var b strings.Builder
			b.WriteString(parts[1] + "| setting | values | default | is |\n|---|---|---|---|\n")
			for _, group := range strings.Fields(parts[2]) {
				if where[group] != "" {
					t.Errorf("%s and %s have the settings of %s", where[group], path, group)
				}
				where[group] = path
				if len(rows[group]) == 0 {
					t.Errorf("%s: no setting is called %s", path, group)
				}
				for _, r := range rows[group] {
					b.WriteString(r.String())
				}
			}
			return b.String() + parts[3]
		})
		switch {
		case want == string(have):
		case *update:
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is not what the schema says: run go test ./config -run TestSettingsPages -update", path)
		}
	}
	for group := range rows {
		if where[group] == "" {
			t.Errorf("no page of %s has the settings of %s", settingsPages, group)
		}
	}
}

// A settingRow is a line of a table.
type settingRow struct{ key, values, fallback, text string }

func (r settingRow) String() string {
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	fallback := r.fallback
	if fallback != "" {
		fallback = "`" + cell(fallback) + "`"
	}
	text := strings.ReplaceAll(cell(r.text), "*", `\*`)
	return "| `" + cell(r.key) + "` | " + cell(r.values) + " | " + fallback + " | " + text + " |\n"
}

// sandboxSettings is where the settings of a sandbox lie, whose keys are shown
// without it.
const sandboxSettings = "agents.defaults.sandbox."

// settingRows returns a row for each setting, by the first part of its key.
func settingRows(t *testing.T) map[string][]settingRow {
	var root map[string]any
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]settingRow{}
	var walk func(s map[string]any, prefix string)
	walk = func(s map[string]any, prefix string) {
		properties := object(s["properties"])
		if merged := equalObjects(properties); merged != nil {
			walk(merged, prefix+"*.")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			child, key := object(properties[name]), prefix+name
			switch {
			case key == "agents.list.sandbox": // the settings of agents.defaults.sandbox
				continue
			case strings.HasPrefix(key, "tenants.list.") && reflect.DeepEqual(child, object(object(object(object(object(root["properties"])["tenants"])["properties"])["defaults"])["properties"])[name]):
				continue // as in tenants.defaults
			case child["properties"] != nil:
				walk(child, key+".")
				continue
			}
			shown := strings.TrimPrefix(key, sandboxSettings)
			group, _, _ := strings.Cut(shown, ".")
			rows[group] = append(rows[group], rowOf(shown, child))
			for _, below := range []string{"items", "additionalProperties"} {
				if sub := object(child[below]); sub["properties"] != nil {
					walk(sub, key+map[string]string{"items": ".", "additionalProperties": ".NAME."}[below])
				}
			}
		}
	}
	walk(root, "")
	return rows
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// equalObjects returns what all properties are if they are objects with the
// same properties, such as the budgets of sessions, agents and tenants.
func equalObjects(properties map[string]any) map[string]any {
	var first map[string]any
	for _, v := range properties {
		o := object(v)
		if o["properties"] == nil || first != nil && !reflect.DeepEqual(first["properties"], o["properties"]) {
			return nil
		}
		first = o
	}
	if len(properties) < 2 {
		return nil
	}
	return first
}

// stated finds the default at the end of a description.
var stated = regexp.MustCompile(`^(.*?)[;.] [dD]efault ([^;,. ]+(?:\.[^;,. ]+)*)\.$`)

func rowOf(key string, s map[string]any) settingRow {
	r := settingRow{key: key, values: valuesOf(s)}
	r.text, _ = s["description"].(string)
	if m := stated.FindStringSubmatch(r.text); m != nil {
		r.text, r.fallback = m[1]+".", m[2]
	}
	return r
}

// valuesOf says in a word what a setting can be.
func valuesOf(s map[string]any) string {
	if words, ok := s["enum"].([]any); ok {
		var all []string
		for _, w := range words {
			all = append(all, "`"+w.(string)+"`")
		}
		return strings.Join(all, ", ")
	}
	switch kind := s["type"].(type) {
	case []any:
		if pattern, _ := s["pattern"].(string); strings.Contains(pattern, "ms") {
			return "time"
		}
		return "size"
	case string:
		return map[string]string{"boolean": "bool", "array": "list", "integer": "int"}[kind] + map[bool]string{true: "", false: kind}[kind == "boolean" || kind == "array" || kind == "integer"]
	}
	return ""
}
