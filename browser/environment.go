package browser

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// environment returns the variables that carry settings to the supervisor.
// They are the whole contract between the two.
func environment(s Settings) map[string]string {
	proxy := net.JoinHostPort("127.0.0.1", strconv.Itoa(ProxyPort))
	if s.Direct {
		proxy = "direct"
	}
	return map[string]string{
		"SANDBOX_BROWSER_CDP_PORT":      strconv.Itoa(s.CDPPort),
		"SANDBOX_BROWSER_VNC_PORT":      strconv.Itoa(s.VNCPort),
		"SANDBOX_BROWSER_NOVNC_PORT":    strconv.Itoa(s.NoVNCPort),
		"SANDBOX_BROWSER_HEADLESS":      truth(s.Headless),
		"SANDBOX_BROWSER_VNC":           truth(s.VNC),
		"SANDBOX_BROWSER_NO_SANDBOX":    truth(s.NoSandbox),
		"SANDBOX_BROWSER_PROXY":         proxy, // address, or "direct"
		"SANDBOX_BROWSER_SCHEMES":       strings.Join(s.Schemes, ","),
		"SANDBOX_BROWSER_DOWNLOADS":     truth(s.Downloads),
		"SANDBOX_BROWSER_START_TIMEOUT": strconv.Itoa(max(1, int(s.StartTimeout/time.Second))), // seconds
	}
}

func truth(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// kept applies the variables written by environment to s. A missing variable
// changes nothing.
func kept(s Settings, env map[string]string) Settings {
	const prefix = "SANDBOX_BROWSER_"
	for name, port := range map[string]*int{"CDP_PORT": &s.CDPPort, "VNC_PORT": &s.VNCPort, "NOVNC_PORT": &s.NoVNCPort} {
		if n, err := strconv.Atoi(env[prefix+name]); err == nil {
			*port = n
		}
	}
	for name, flag := range map[string]*bool{"HEADLESS": &s.Headless, "VNC": &s.VNC, "NO_SANDBOX": &s.NoSandbox} {
		if text, ok := env[prefix+name]; ok {
			*flag = text == truth(true)
		}
	}
	if text, ok := env[prefix+"PROXY"]; ok {
		s.Direct = text == "direct"
	}
	if text, ok := env[prefix+"DOWNLOADS"]; ok {
		s.Downloads = s.Downloads && text == truth(true)
	}
	if text, ok := env[prefix+"SCHEMES"]; ok {
		made := strings.Split(text, ",")
		s.Schemes = slices.DeleteFunc(slices.Clone(s.Schemes), func(scheme string) bool { return !slices.Contains(made, scheme) })
	}
	return s
}
