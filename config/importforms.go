package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A formerKey is a key that settings of a sandbox have in another program's form, or
// a present key that has other values there.
type formerKey struct {
	to     []string             // the present keys
	either bool                 // a value becomes one of them, and not all
	left   string               // why it is not taken over, and what to do; to are keys to look at
	read   func(value any) read // what a value becomes

	// present reports, for a present key, whether the value is one of the present
	// form, too.
	present func(value any) bool
}

// A read is what a value becomes.
type read struct {
	result string
	value  any
	to     []string // where it differs from those of the key
	note   string
	bad    string // what is wrong with the value
}

// renamed takes a value over under other names.
func renamed(to ...string) formerKey {
	return formerKey{to: to, read: func(v any) read { return read{result: ImportSet, value: v} }}
}

// leaving takes nothing over. to are the keys to look at instead.
func leaving(why string, to ...string) formerKey {
	return formerKey{to: to, left: why, read: func(any) read { return read{result: ImportLeft, note: why} }}
}

// converted is renamed with a conversion.
func converted(convert func(v any) read, to ...string) formerKey {
	return formerKey{to: to, read: func(v any) read {
		r := convert(v)
		if r.result == "" {
			r.result = ImportSet
		}
		return r
	}}
}

func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	out := []string{}
	for _, e := range list {
		s, is := e.(string)
		if !is {
			return nil, false
		}
		out = append(out, s)
	}
	return out, ok
}

// prefixed makes rules of commands that name a program, or a program and its first
// arguments: whatever follows belongs to them.
func prefixed(v any) read {
	list, ok := texts(v)
	if !ok {
		return read{bad: "must be a list of strings"}
	}
	out := []any{}
	for _, s := range list {
		if !strings.Contains(s, "*") {
			s += ":*"
		}
		out = append(out, s)
	}
	return read{value: out, note: "each names the command with any further arguments"}
}

// setup makes a list of the commands that one text holds.
func setup(v any) read {
	note := "it runs as root with network when the image is made, once for each image, and not in the sandbox"
	switch t := v.(type) {
	case string:
		if strings.TrimSpace(t) == "" {
			return read{result: ImportDefault, note: "an empty one runs nothing"}
		}
		return read{value: []any{t}, note: note}
	case []any:
		if _, ok := texts(v); ok {
			return read{value: t, note: note}
		}
	}
	return read{bad: "must be a string or a list of strings"}
}

// units makes a duration of a number of a unit.
func units(unit time.Duration) func(v any) read {
	return func(v any) read {
		n, ok := v.(float64)
		if !ok || n < 0 || n*float64(unit) > float64(math.MaxInt64/2) {
			return read{bad: "must be a number that is not negative"}
		}
		return read{value: (time.Duration(n * float64(unit))).String()}
	}
}

// timeSpan makes a duration of a number of seconds, of an object with seconds and
// nanoseconds, or of the present form.
func timeSpan(v any) read {
	switch t := v.(type) {
	case float64:
		return units(time.Second)(t)
	case map[string]any:
		secs, ok := t["secs"].(float64)
		nanos, fraction := t["nanos"].(float64)
		known := 1
		if fraction {
			known = 2
		}
		if !ok || len(t) != known || nanos < 0 || nanos >= 1e9 {
			return read{bad: "must be an object with secs and nanos"}
		}
		return units(time.Second)(secs + nanos/1e9)
	}
	return read{value: v}
}

// named makes a word of capitals and small letters one of the present words.
func named(words []string) func(v any) read {
	return func(v any) read {
		s, ok := v.(string)
		if word := strings.ToLower(s); ok && slices.Contains(words, word) {
			return read{value: word}
		}
		return read{bad: "must be one of " + strings.Join(words, ", ")}
	}
}

// closedUnless reads a switch that opens all hosts.
func closedUnless(open read) func(v any) read {
	return func(v any) read {
		switch v {
		case false:
			return read{result: ImportDefault, note: "nothing is reached but what network.allowedDomains names"}
		case true:
			return open
		}
		return read{bad: "must be true or false"}
	}
}

func strictnessWords() []string { return []string{"strict", "restricted", "normal", "permissive"} }
func modeWords() []string       { return []string{"off", "non-main", "all"} }

// formerKeys are the keys of other forms by their place below the settings of a
// sandbox.
func formerKeys() map[string]formerKey {
	const ofGrant = "each grant says it for itself (POST /v1/operate, package grant)"
	out := map[string]formerKey{
		// {"enabled", "provider", "policy", "providerOptions"}
		"policy.filesystem.whitelist": renamed("filesystem.allowRead", "filesystem.allowWrite"),
		"policy.filesystem.blacklist": renamed("filesystem.denyRead", "filesystem.denyWrite"),
		"policy.network.allowNetwork": converted(closedUnless(read{result: ImportLeft, note: "name the hosts in network.allowedDomains, or set network.allowPublic"}), "network.allowedDomains", "network.allowPublic"),
		"cwd":                         leaving("the working folder is that of a call: sandbox run --workspace DIR, or workspace of an agent in agents.list with workspaceAccess rw", "workspaceAccess"),

		// {"sandbox": {…}}
		"autoAllowBashIfSandboxed":  renamed("commands.autoAllowIfSandboxed"),
		"allowUnsandboxedCommands":  renamed("commands.allowUnsandboxed"),
		"excludedCommands":          renamed("commands.excluded"),
		"dangerouslyDisableSandbox": leaving("a call asks for it itself, and commands.allowUnsandboxed permits it", "commands.allowUnsandboxed"),
		"network.allowUnixSockets":  renamed("filesystem.allowUnixSockets"),

		// {"agents": {"defaults": {"sandbox": {…}}}}
		"docker.setupCommand": converted(setup, "docker.setup"),
		"prune.age":           renamed("prune.maxAge"),
		"prune.idleHours":     converted(units(time.Hour), "prune.idle"),
		"prune.maxAgeDays":    converted(units(24*time.Hour), "prune.maxAge"),

		// {"mode", "working_dir", …}
		"working_dir":            leaving("the working folder is that of a call: sandbox run --workspace DIR, or workspace of an agent in agents.list with workspaceAccess rw", "workspaceAccess"),
		"allowed_read_paths":     renamed("filesystem.allowRead"),
		"allowed_write_paths":    renamed("filesystem.allowWrite"),
		"allowed_commands":       converted(prefixed, "commands.allow"),
		"blocked_commands":       converted(prefixed, "commands.block"),
		"allow_network":          converted(closedUnless(read{value: true, to: []string{"network.allowPublic"}}), "network.allowPublic"),
		"timeout":                converted(timeSpan, "limits.timeout"),
		"strictness":             converted(named(strictnessWords()), "commands.strictness"),
		"strict_sensitive_files": leaving("the table of sensitive files always holds; preset strict refuses what others ask about", "preset", "filesystem.denyRead"),
		"allow_all_reads":        leaving("preset permissive opens all reads but the denied ones", "preset", "filesystem.allowRead"),
		"max_violations":         leaving("how many violations are kept is fixed: sandbox violations"),

		"limits.max_memory_bytes":    renamed("limits.memory"),
		"limits.max_cpu_seconds":     renamed("limits.cpuSeconds"),
		"limits.max_output_bytes":    renamed("limits.maxOutputBytes"),
		"limits.max_file_size_bytes": renamed("limits.fileSize"),
		"limits.max_processes":       renamed("limits.processes"),
		"limits.max_open_files":      renamed("limits.openFiles"),

		// {"limits", "whitelists", "mappings", "timeout_ms"}
		"limits.max_bytes_in":    renamed("profile.maxBytesIn"),
		"limits.max_bytes_out":   renamed("profile.maxBytesOut"),
		"limits.max_files":       renamed("profile.maxFiles"),
		"limits.max_depth":       renamed("profile.maxDepth"),
		"limits.max_concurrency": renamed("profile.maxConcurrency"),
		"whitelists.domains":     renamed("network.allowedDomains"),
		"whitelists.paths":       renamed("profile.paths"),
		"whitelists.tools":       renamed("profile.tools"),
		"whitelists.mime_allow":  renamed("profile.mime"),
		"whitelists.methods":     renamed("profile.methods"),
		"mappings.root_fs":       leaving("the root of operations is /workspace; which folder of the host that is, workspaceAccess and workspaceRoot say", "workspaceAccess", "workspaceRoot"),
		"mappings.tmp_dir":       leaving("temporary space lies below /tmp inside, which docker.tmpfs sizes; filesystem.tempPrefixes names the folders there that may be written", "docker.tmpfs", "filesystem.tempPrefixes"),
		"timeout_ms":             converted(units(time.Millisecond), "profile.timeout"),
	}
	for from, to := range map[string]string{"calls": "calls", "bytes_in": "bytesIn", "bytes_out": "bytesOut", "cpu_ms": "cpuMs", "gpu_ms": "gpuMs", "file_count": "files"} {
		out["budget."+from] = leaving("a budget is that of a grant; budgets.session."+to+" bounds all of a session", "budgets.session."+to)
	}
	for _, key := range []string{"tenant", "subject_id", "tool_name", "call_id", "capabilities", "expires_at", "decision_key_fingerprint", "safety", "side_effect", "profile_hash"} {
		out[key] = leaving(ofGrant)
	}
	network := out["policy.network.allowNetwork"]
	network.either = true
	out["policy.network.allowNetwork"] = network
	out["mode"] = formerKey{
		to: []string{"mode", "preset"}, either: true,
		read: func(v any) read {
			s, _ := v.(string)
			if slices.Contains(modeWords(), s) {
				return read{result: ImportSet, value: v, to: []string{"mode"}}
			}
			if r := named(strictnessWords())(v); r.bad == "" {
				return read{result: ImportSet, value: r.value, to: []string{"preset"}}
			}
			return read{bad: fmt.Sprintf("must be one of %s, or a preset: %s", strings.Join(modeWords(), ", "), strings.Join(strictnessWords(), ", "))}
		},
		present: func(v any) bool { s, _ := v.(string); return slices.Contains(modeWords(), s) },
	}
	limit := converted(timeSpan, "limits.timeout")
	limit.present = func(v any) bool { _, is := v.(string); return is || v == float64(0) }
	out["limits.timeout"] = limit
	strictness := converted(named(strictnessWords()), "commands.strictness")
	strictness.present = func(v any) bool { s, _ := v.(string); return s == strings.ToLower(s) }
	out["commands.strictness"] = strictness
	return out
}

// formerBelow returns the keys of other forms below key, sorted.
func formerBelow(key string) []string {
	var out []string
	for k := range formerKeys() {
		if strings.HasPrefix(k, key+".") {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
