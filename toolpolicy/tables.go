package toolpolicy

// alwaysAllowed is the tool that is allowed unless it is denied.
const alwaysAllowed = "image"

// Allowed returns the tools that are allowed when settings say nothing: those
// that work on the sandbox itself.
func Allowed() []string {
	return []string{"exec", "process", "read", "write", "edit", "apply_patch", "image", "checkpoint", "sessions_*"}
}

// Denied returns the tools that are denied when settings say nothing: those
// that reach the gateway around the sandbox, its other devices, and people.
func Denied() []string {
	return append([]string{"browser", "canvas", "nodes", "cron", "gateway"}, Channels()...)
}

// Channels returns the ids of the messaging channels that are known.
func Channels() []string {
	return []string{
		"bluebubbles", "discord", "feishu", "googlechat", "imessage", "irc", "line", "matrix", "mattermost",
		"msteams", "nextcloud-talk", "nostr", "signal", "slack", "synology-chat", "telegram", "tlon", "twitch",
		"webchat", "whatsapp", "zalo", "zalouser",
	}
}

// changing returns the tools that change files of the workspace.
func changing() []string { return []string{"write", "edit", "apply_patch", "checkpoint"} }

// aliases are further names of tools: they are the tool.
func aliases() map[string]string {
	return map[string]string{
		"bash": "exec", "shell": "exec", "sh": "exec",
		"apply-patch": "apply_patch", "applypatch": "apply_patch",
	}
}

// parts are tools that do a part of what another one does: what an entry says
// of reading holds for every way of it, or a deny of read would leave grep.
func parts() map[string]string {
	return map[string]string{"ls": "read", "glob": "read", "grep": "read", "run_code": "exec"}
}

// groups are names for several entries.
func groups() map[string][]string {
	return map[string][]string{
		"fs":         {"read", "write", "edit", "apply_patch"},
		"runtime":    {"exec", "process"},
		"browser":    {"browser"},
		"ui":         {"browser", "canvas"},
		"sessions":   {"sessions_*", "session_status"},
		"memory":     {"memory_search", "memory_get"},
		"web":        {"web_search", "web_fetch"},
		"automation": {"cron", "gateway"},
		"nodes":      {"nodes"},
		"messaging":  append([]string{"message"}, Channels()...),
	}
}
