package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// TestImageByDefault checks a browser without settings, in one box.
func TestImageByDefault(t *testing.T) {
	t.Parallel()
	b := browserBox(t, nil)
	t.Run("settings", func(t *testing.T) { imageSettings(t, b.of(t)) })
	t.Run("listens on loopback only", func(t *testing.T) { listensOnly(t, b.of(t), "0100007F:2406\n") })
	t.Run("keeps Chromium's sandbox", func(t *testing.T) { keepsChromiumsSandbox(t, b.of(t)) })
	t.Run("loads no extension", func(t *testing.T) { loadsNoExtension(t, b.of(t)) })
	t.Run("refuses addresses", func(t *testing.T) { refusesAddresses(t, b.of(t)) })
	t.Run("bounds its log", func(t *testing.T) { boundsItsLog(t, b.of(t)) })
}

// TestImageOnDisplay checks a browser on a display that cannot be watched.
func TestImageOnDisplay(t *testing.T) {
	t.Parallel()
	b := browserBox(t, map[string]string{"HEADLESS": "0"})
	t.Run("listens on loopback only", func(t *testing.T) { listensOnly(t, b.of(t), "0100007F:2406\n") })
	t.Run("wants its cookie", func(t *testing.T) { displayWantsItsCookie(t, b.of(t)) })
}

// imageSettings checks that every setting is validated before anything
// else, and that there is one instance.
func imageSettings(t *testing.T, b *box) {
	for name, tc := range map[string]struct {
		setting string // without its prefix; several with blanks between
		names   string // what the sentence names; empty when the setting is right
	}{
		"none":                  {"", ""},
		"what settings make":    {strings.Join(environment(), " "), ""},
		"port of the system":    {"CDP_PORT=80", "CDP_PORT"},
		"port too high":         {"VNC_PORT=65536", "VNC_PORT"},
		"port in other digits":  {"NOVNC_PORT=0x1770", "NOVNC_PORT"},
		"port with zeros":       {"CDP_PORT=09222", "CDP_PORT"},
		"empty port":            {"CDP_PORT=", "CDP_PORT"},
		"port far too long":     {"CDP_PORT=99999999999999999999", "CDP_PORT"},
		"port with a command":   {"CDP_PORT=a[$(id>/tmp/x)]", "CDP_PORT"},
		"one port twice":        {"CDP_PORT=5900", "VNC_PORT"},
		"headless of words":     {"HEADLESS=yes", "HEADLESS"},
		"VNC of words":          {"VNC=true", "VNC"},
		"VNC without a display": {"VNC=1", "HEADLESS"},
		"VNC with a display":    {"VNC=1 HEADLESS=0", ""},
		"sandbox of words":      {"NO_SANDBOX=2", "NO_SANDBOX"},
		"downloads of words":    {"DOWNLOADS=", "DOWNLOADS"},
		"no scheme":             {"SCHEMES=", "SCHEMES"},
		"files":                 {"SCHEMES=http,file", "SCHEMES"},
		"all":                   {"SCHEMES=*", "SCHEMES"},
		"comma at the end":      {"SCHEMES=http,", "SCHEMES"},
		"all three schemes":     {"SCHEMES=http,https,data", ""},
		"scheme with a quote":   {`SCHEMES=http","*`, "SCHEMES"},
		"direct":                {"PROXY=direct", ""},
		"proxy of six":          {"PROXY=[::1]:3128", ""},
		"proxy without port":    {"PROXY=127.0.0.1", "PROXY"},
		"proxy with a flag":     {"PROXY=a:1,direct://", "PROXY"},
		"proxy with port 0":     {"PROXY=127.0.0.1:0", "PROXY"},
		"empty proxy":           {"PROXY=", "PROXY"},
		"no time":               {"START_TIMEOUT=0", "START_TIMEOUT"},
		"time in fractions":     {"START_TIMEOUT=1.5", "START_TIMEOUT"},
	} {
		t.Run(name, func(t *testing.T) {
			var env []string
			for _, s := range strings.Fields(tc.setting) {
				env = append(env, "SANDBOX_BROWSER_"+s)
			}
			out, status := b.try("exec sandbox-browser", env...)
			if tc.names == "" {
				if status != 75 || out != "sandbox-browser: another instance runs in this container\n" {
					t.Errorf("status %d, %q; want that of a second instance", status, out)
				}
				return
			}
			if status != 2 || !strings.Contains(out, "SANDBOX_BROWSER_"+tc.names) || strings.Count(out, "\n") != 1 {
				t.Errorf("status %d, %q; want one sentence about %s", status, out, tc.names)
			}
		})
	}
	if out := b.sh("ls -A /tmp"); out != "" {
		t.Errorf("a setting was carried out: %q", out)
	}
}

// environment is what real settings make, without the prefix.
func environment() []string {
	s := browser.Settings{CDPPort: 9222, VNCPort: 5900, NoVNCPort: 6080, Headless: true, Schemes: []string{"http", "https"}}
	var out []string
	for k, v := range s.Environment() {
		out = append(out, strings.TrimPrefix(k, "SANDBOX_BROWSER_")+"="+v)
	}
	return out
}

// TestImageListensOnLoopbackOnly checks a browser with another port; those of other
// settings are looked at in the boxes of other tests.
func TestImageListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	listensOnly(t, browserBox(t, map[string]string{"CDP_PORT": "4096"}), "0100007F:1000\n")
}

// listensOnly checks which ports have listeners, in the kernel's hexadecimal digits,
// in order. There are none on IPv6, and of the sockets with names in a network
// namespace only the display's.
func listensOnly(t *testing.T, b *box, ports string) {
	t.Helper()
	if got := b.sh(`cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A" { print $2 }' | sort`); got != ports {
		t.Errorf("listeners:\n%swant:\n%s", got, ports)
	}
	if got := b.sh(`cat /proc/net/udp /proc/net/udp6 | awk '$2 ~ /:/ { print $2 }'`); got != "" {
		t.Errorf("datagram sockets:\n%s", got)
	}
}

// displayWantsItsCookie checks that a client without the supervisor's
// cookie cannot connect to the display.
func displayWantsItsCookie(t *testing.T, b *box) {
	// A client that names no cookie: byte order, version 11.0, no names.
	out := b.sh(`socket=$(ls /tmp/.X11-unix/X* | head -n 1)
python3 - "$socket" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"l\0\x0b\0\0\0\0\0\0\0\0\0")
print(s.recv(1)[0])
END`)
	if out != "0\n" {
		t.Errorf("the display answers %q, want a refusal", out)
	}
}

// namespaces shows those of the first process and of a page's, once there is a
// page, as Chromium answers before, of which the condition is true.
func namespaces(condition string) string {
	return `filters() { sed -n 's/^Seccomp_filters:[[:blank:]]*//p' /proc/$1/status; }
for try in $(seq 600); do
	page=$(pgrep -f -- '^[^ ]* --type=renderer' | tail -n 1)
	[ -n "$page" ] && ` + condition + ` && break
	sleep 0.1
done
for kind in user pid net; do
	[ "$(readlink /proc/1/ns/$kind)" = "$(readlink /proc/$page/ns/$kind)" ] && echo "same $kind"
done
echo "$(filters 1) $(filters $page)"`
}

func keepsChromiumsSandbox(t *testing.T, b *box) {
	// A page closes its filter after it has begun.
	filtered := `[ "$(filters $page)" -gt "$(filters 1)" ]`
	got := strings.Split(strings.TrimSpace(b.sh(namespaces(filtered))), "\n")
	var outer, inner int
	if _, err := fmt.Sscan(got[0], &outer, &inner); len(got) != 1 || err != nil || inner <= outer {
		t.Errorf("a page has its namespaces or filters with the container: %q", got)
	}
	if out, status := b.try(`pgrep -af -- '^[^ ]*chromium .*--no-sandbox'`); status != 1 {
		t.Errorf("Chromium was told to go without: %s", out)
	}
}

func TestImageRefusesToGoWithoutSandbox(t *testing.T) {
	t.Parallel()
	b := open(t, seccomp.Profile(), nil)
	status, out := b.end()
	if status != 1 || out != "" {
		t.Errorf("status %d, output %q", status, out)
	}
	for _, want := range []string{"Chromium's own sandbox cannot start", "user namespaces are not allowed", "browser.dangerouslyNoSandbox"} {
		if !strings.Contains(b.stderr.String(), want) {
			t.Errorf("%q is not in %q", want, b.stderr)
		}
	}
}

func TestImageWithoutSandboxBySetting(t *testing.T) {
	t.Parallel()
	b := open(t, seccomp.Profile(), map[string]string{"NO_SANDBOX": "1"})
	b.ready()
	if got := b.sh(namespaces("true")); !strings.Contains(got, "same user") {
		t.Errorf("namespaces: %q", got)
	}
}
