package launch

import (
	"context"
	"strconv"
	"strings"
)

// MinBwrap is the oldest bubblewrap that has all that the instance asks of it.
const minBwrap = "0.8.0"

// Needed lists the options without which an instance would be weaker than the
// settings have it. Since distributions carry changes of their own, what
// --help lists counts, and not the version.
func neededPreflight(w Without) []string {
	out := []string{
		"--args", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop",
		"--ro-bind", "--remount-ro", "--size", "--perms", "--proc", "--dev",
	}
	if !w.DisableUserns {
		out = append(out, "--disable-userns")
	}
	if !w.Seccomp {
		out = append(out, "--add-seccomp-fd")
	}
	return out
}

// bubblewrap looks for the program and what it can do.
func bubblewrap(ctx context.Context, h Host) preflightFinding {
	path, err := h.bwrap()
	if err != nil {
		return preflightFail(h.install("bubblewrap"), "bubblewrap is not installed: %v", err)
	}
	version, err := h.Run(ctx, path, "--version")
	if err != nil {
		return preflightFail(h.install("bubblewrap")+", or make it executable for everybody", "%s does not start: %v%s", path, err, said(version))
	}
	seen := path + ", " + strings.TrimSpace(version)
	help, err := h.Run(ctx, path, "--help")
	if err != nil {
		return preflightFail(h.install("bubblewrap"), "%s does not tell its options: %v", seen, err)
	}
	if lacks := missingOptions(help, h.Without); len(lacks) > 0 {
		age := ""
		if olderPreflight(version, minBwrap) {
			age = " (older than " + minBwrap + ")"
		}
		return preflightFail("upgrade bubblewrap to "+minBwrap+" or later, from the distribution's backports or https://github.com/containers/bubblewrap",
			"%s%s, lacks %s", seen, age, strings.Join(lacks, " "))
	}
	if set, err := h.SetID(path); err == nil && set {
		return preflightFail("sudo chmod u-s "+path+", where user namespaces are available", "%s, set-user-id: it cannot keep nested namespaces out", seen)
	}
	return preflightOk("%s", seen)
}

// missingOptions returns what of [Needed] is not in the text of --help.
func missingOptions(help string, w Without) []string {
	have := map[string]bool{}
	for word := range strings.FieldsSeq(help) {
		have[word] = true
	}
	var out []string
	for _, o := range neededPreflight(w) {
		if !have[o] {
			out = append(out, o)
		}
	}
	return out
}

// Older reports whether version, as bwrap prints it, is below least. What
// cannot be read as a version is not older.
func olderPreflight(version, least string) bool {
	a, okA := numbers(version)
	b, okB := numbers(least)
	if !okA || !okB {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// numbers reads the first three numbers of the last word.
func numbers(version string) (out [3]int, ok bool) {
	words := strings.Fields(version)
	if len(words) == 0 {
		return out, false
	}
	for i, s := range strings.SplitN(words[len(words)-1], ".", 4) {
		if i == len(out) {
			break
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return out, i > 0
		}
		out[i] = n
	}
	return out, true
}

// said adds what a program wrote to a message.
func said(output string) string {
	if output = strings.TrimSpace(output); output != "" {
		return ": " + output
	}
	return ""
}
