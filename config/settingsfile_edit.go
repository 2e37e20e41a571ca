package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

const opGrant = "write settings"

// Edit returns the content data of a settings file with g added to
// filesystem.allowRead or allowWrite, or to network.allowedDomains. Empty data is a file that does not
// exist. Comments and layout stay as they are, and nothing is added twice:
// data itself is returned when the grant is there already.
//
// The rule goes to the agent's entry when agents.list has one, because it
// was asked for by that agent, and to agents.defaults otherwise.
//
// Data and result are judged by [config.ParseWith], with the given providers; a path that cannot be written
// as a rule is [sandbox.CodeValidation].
func editSettingsfile(data []byte, agent string, g sandbox.Grant, providers ...string) ([]byte, error) {
	rule, list, err := ruleOf(g)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return fresh(rule, list)
	}
	settings, err := ParseWith(anywhere, data, providers)
	if err != nil {
		return nil, err
	}
	if g.Operation == sandbox.OpConnect && !HostGrantable(settings, agent) {
		return nil, refuseGrant(sandbox.CodeUnsupported, g.Path, "the agent has no network.allowedDomains of its own in the settings file, and a host is not permitted to every agent because one has asked", nil)
	}
	root, err := hujson.Parse(data)
	if err != nil {
		return nil, refuseGrant(sandbox.CodeValidation, g.Path, "the settings file is not valid", err)
	}
	steps := append(append(placeOf(&root, agent), "sandbox"), list...)
	if has(root.Find(pointer(steps)), rule) || list[0] == "filesystem" && has(root.Find("/agents/defaults/sandbox"+pointer(list)), rule) {
		return data, nil
	}
	if err := insert(&root, steps, rule); err != nil {
		return nil, refuseGrant(sandbox.CodeValidation, g.Path, "the settings file has no place for the rule", err)
	}
	out := root.Pack()
	if _, err := ParseWith(anywhere, out, providers); err != nil {
		return nil, err
	}
	return out, nil
}

// anywhere stands for the file in checks that do not depend on its folder.
const anywhere = "/settings"

// fresh is a file that holds nothing but the rule.
func fresh(rule string, list []string) ([]byte, error) {
	type object = map[string]any
	out, err := json.MarshalIndent(object{"agents": object{"defaults": object{"sandbox": object{list[0]: object{list[1]: []string{rule}}}}}}, "", "\t")
	if err != nil {
		return nil, refuseGrant(sandbox.CodeInternal, rule, "the rule cannot be written", err)
	}
	out = append(out, '\n')
	_, err = Parse(anywhere, out)
	return out, err
}

// ruleOf writes a grant as a rule of the settings and names its list, by the
// steps to it.
func ruleOf(g sandbox.Grant) (rule string, list []string, err error) {
	switch g.Operation {
	case sandbox.OpRead:
		list = []string{"filesystem", "allowRead"}
	case sandbox.OpWrite:
		list = []string{"filesystem", "allowWrite"}
	case sandbox.OpConnect:
		if _, _, err := network.ParseTarget(g.Path); err != nil {
			return "", nil, err
		}
		return g.Path, []string{"network", "allowedDomains"}, nil
	default:
		return "", nil, refuseGrant(sandbox.CodeValidation, g.Path, fmt.Sprintf("the operation %q cannot be granted for good", g.Operation), nil)
	}
	switch {
	case !path.IsAbs(g.Path) || path.Clean(g.Path) != g.Path || g.Path == "/":
		return "", nil, refuseGrant(sandbox.CodeValidation, g.Path, "only a clean absolute path below / can be granted", nil)
	case strings.ContainsAny(g.Path, `*?[]{}\`):
		return "", nil, refuseGrant(sandbox.CodeValidation, g.Path, "the path has characters that would make it a pattern in the settings", nil)
	case !utf8.ValidString(g.Path) || strings.ContainsRune(g.Path, 0):
		return "", nil, refuseGrant(sandbox.CodeValidation, g.Path, "the path is not text", nil)
	}
	return GrantRule(g.Path), list, nil
}

// placeOf returns where the settings of agent are.
func placeOf(root *hujson.Value, agent string) []string {
	if list := root.Find("/agents/list"); list != nil {
		if entries, ok := list.Value.(*hujson.Array); ok {
			for i := range entries.Elements {
				id := entries.Elements[i].Find("/id")
				if id != nil && id.Value.Kind() == '"' && id.Value.(hujson.Literal).String() == agent {
					return []string{"agents", "list", fmt.Sprint(i)}
				}
			}
		}
	}
	return []string{"agents", "defaults"}
}

func pointer(steps []string) string { return "/" + strings.Join(steps, "/") }

// has reports whether a list has the text s.
func has(list *hujson.Value, s string) bool {
	if list == nil {
		return false
	}
	array, ok := list.Value.(*hujson.Array)
	return ok && slices.ContainsFunc(array.Elements, func(e hujson.Value) bool {
		return e.Value.Kind() == '"' && e.Value.(hujson.Literal).String() == s
	})
}

// insert adds rule to the list at steps, with whatever is missing above it.
func insert(root *hujson.Value, steps []string, rule string) error {
	value, err := json.Marshal(rule)
	if err != nil {
		return err
	}
	there := len(steps)
	for there > 0 && root.Find(pointer(steps[:there])) == nil {
		there--
	}
	at := pointer(steps) + "/-"
	if there < len(steps) {
		value = fmt.Appendf(nil, "[%s]", value)
		for _, name := range slices.Backward(steps[there+1:]) {
			value = fmt.Appendf(nil, "{%q: %s}", name, value)
		}
		at = pointer(steps[:there+1])
	}
	if err := root.Patch(fmt.Appendf(nil, `[{"op": "add", "path": %q, "value": %s}]`, at, value)); err != nil {
		return err
	}
	above := root
	if there > 0 {
		above = root.Find(pointer(steps[:there]))
	}
	indent(above)
	return nil
}

// indent gives the last element of v, which was just added, the place that
// the others have: a line of its own or the same line.
func indent(v *hujson.Value) {
	var before, after []*hujson.Extra
	switch c := v.Value.(type) {
	case *hujson.Array:
		for i := range c.Elements {
			before, after = append(before, &c.Elements[i].BeforeExtra), append(after, &c.Elements[i].AfterExtra)
		}
	case *hujson.Object:
		for i := range c.Members {
			before, after = append(before, &c.Members[i].Name.BeforeExtra), append(after, &c.Members[i].Value.AfterExtra)
		}
		c.Members[len(c.Members)-1].Value.BeforeExtra = hujson.Extra(" ")
	}
	if len(before) < 2 {
		return
	}
	if *after[len(after)-2] != nil { // the comma behind the last one
		*after[len(after)-1] = hujson.Extra{}
	}
	last, sibling := before[len(before)-1], *before[0]
	line := bytes.LastIndexByte(sibling, '\n')
	switch {
	case line >= 0:
		if !bytes.HasSuffix(*last, []byte("\n")) {
			*last = append(*last, '\n')
		}
		*last = append(*last, sibling[line+1:]...)
	case len(*last) == 0:
		*last = hujson.Extra(" ")
	}
}

func refuseGrant(code sandbox.Code, path, message string, cause error) error {
	return &sandbox.Error{Code: code, Op: opGrant, Resource: path, Message: message, Err: cause}
}
