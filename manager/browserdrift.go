package manager

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/confighash"
)

// browserDrift reports what differs between two containers of a browser, in
// terms of its settings. The settings reach the container as variables; was and
// is are their values. None of them is a secret.
func browserDrift(changes []confighash.Change, was, is map[string]string) []confighash.Change {
	out := make([]confighash.Change, 0, len(changes))
	for _, c := range changes {
		variable := strings.TrimPrefix(c.Field, "docker.env.")
		field, say := browserSetting(variable)
		switch {
		case c.Field == "docker.network" || c.Field == "docker.image":
			c.Field = strings.Replace(c.Field, "docker.", "browser.", 1)
		case variable == "SANDBOX_BROWSER_PROXY" && slices.ContainsFunc(changes, func(c confighash.Change) bool { return c.Field == "docker.network" }):
			continue // it follows from the network
		case field != "":
			c.Field, c.From, c.To = field, say(was[variable]), say(is[variable])
			c.Tightens = tightens(field, c.To)
		}
		out = append(out, c)
	}
	return out
}

// keptDangers says what holds the pages of a browser less than its settings
// do, because it was made with others.
func keptDangers(drift []confighash.Change) []string {
	for _, c := range drift {
		if c.Field == "browser.dangerouslyNoSandbox" && c.Tightens {
			return []string{"the browser that is there was made without Chromium's own sandbox; see \"next use\""}
		}
	}
	return nil
}

// browserSetting names the setting that a variable stands for, and says its
// values as settings do; other variables have none.
func browserSetting(variable string) (field string, say func(string) string) {
	plain := func(s string) string { return s }
	truth := func(s string) string { return strconv.FormatBool(s == "1") }
	switch variable {
	case "SANDBOX_BROWSER_CDP_PORT":
		return "browser.cdpPort", plain
	case "SANDBOX_BROWSER_VNC_PORT":
		return "browser.vncPort", plain
	case "SANDBOX_BROWSER_NOVNC_PORT":
		return "browser.noVncPort", plain
	case "SANDBOX_BROWSER_HEADLESS":
		return "browser.headless", truth
	case "SANDBOX_BROWSER_VNC":
		return "browser.enableNoVnc", truth
	case "SANDBOX_BROWSER_NO_SANDBOX":
		return "browser.dangerouslyNoSandbox", truth
	case "SANDBOX_BROWSER_DOWNLOADS":
		return "browser.allowDownloads", truth
	case "SANDBOX_BROWSER_SCHEMES":
		return "browser.allowDataUrls", func(s string) string { return strconv.FormatBool(slices.Contains(strings.Split(s, ","), "data")) }
	}
	return "", nil
}

// tightens reports whether a setting of that new value lets pages do less.
func tightens(field, value string) bool {
	switch field {
	case "browser.dangerouslyNoSandbox", "browser.allowDownloads", "browser.allowDataUrls":
		return value == "false"
	}
	return false
}
