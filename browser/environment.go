package browser

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// environment is the whole contract between settings and supervisor.
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
