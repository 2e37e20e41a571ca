package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

func proxyEnvironment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if value, ok := strings.CutPrefix(p, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestUpstreamFrom(t *testing.T) {
	tests := map[string]struct {
		env  []string
		want string
	}{
		"nothing":             {nil, "none"},
		"only exceptions":     {[]string{"NO_PROXY=*"}, "none"},
		"all":                 {[]string{"ALL_PROXY=socks5://proxy:1"}, "socks5://proxy:1 for port 80, socks5://proxy:1 otherwise"},
		"each":                {[]string{"HTTP_PROXY=http://a:1", "HTTPS_PROXY=https://b:2/", "ALL_PROXY=socks5h://c"}, "http://a:1 for port 80, https://b:2 otherwise"},
		"one, others by all":  {[]string{"HTTPS_PROXY=b", "ALL_PROXY=socks5h://c"}, "socks5://c:1080 for port 80, http://b:80 otherwise"},
		"one":                 {[]string{"https_proxy=b:3128"}, "none for port 80, http://b:3128 otherwise"},
		"the other":           {[]string{"http_proxy=HTTP://B.Example.:3128"}, "http://b.example:3128 for port 80, none otherwise"},
		"upper before lower":  {[]string{"https_proxy=a", "HTTPS_PROXY=https://b"}, "none for port 80, https://b:443 otherwise"},
		"credentials":         {[]string{"HTTPS_PROXY=http://user:s3cret@b:1"}, "none for port 80, http://b:1 otherwise"},
		"addresses":           {[]string{"ALL_PROXY=http://[::1]:3128", "HTTP_PROXY=127.1:8"}, "http://127.0.0.1:8 for port 80, http://[::1]:3128 otherwise"},
		"exceptions of kinds": {[]string{"ALL_PROXY=a", "NO_PROXY=x, .y,*.z  10.0.0.0/8,::1,[::2]:5,h:80,1.2.3.4:8"}, "http://a:80 for port 80, http://a:80 otherwise"},
	}
	for name, tt := range tests {
		u, err := UpstreamFrom(proxyEnvironment(tt.env...))
		if err != nil || u.String() != tt.want || (u == nil) != (tt.want == "none") {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
}

func TestUpstreamRefused(t *testing.T) {
	long := strings.Repeat("s3cret", 50)
	for env, field := range map[string]string{
		"HTTPS_PROXY=ftp://a":                   "HTTPS_PROXY",
		"https_proxy=socks4://a":                "https_proxy",
		"ALL_PROXY=socks5a://a":                 "ALL_PROXY",
		"HTTP_PROXY=http://":                    "HTTP_PROXY",
		"HTTP_PROXY=http://u:s3cret@":           "HTTP_PROXY",
		"HTTP_PROXY=http://u:s3cret@a b":        "HTTP_PROXY",
		"HTTP_PROXY=http://u:s3cret@a:99999":    "HTTP_PROXY",
		"HTTP_PROXY=http://u:s3cret@a:0":        "HTTP_PROXY",
		"HTTP_PROXY=http://u:s3cret@a:x":        "HTTP_PROXY",
		"HTTP_PROXY=http://u:s3cret%zz@a":       "HTTP_PROXY",
		"HTTP_PROXY=http://a/path":              "HTTP_PROXY",
		"HTTP_PROXY=http://a?x=s3cret":          "HTTP_PROXY",
		"HTTP_PROXY=http://a#s3cret":            "HTTP_PROXY",
		"HTTP_PROXY=http://b\u00fccher.example": "HTTP_PROXY",
		"ALL_PROXY=socks5://:s3cret@a":          "ALL_PROXY",
		"ALL_PROXY=socks5://u:" + long + "@a":   "ALL_PROXY",
		"ALL_PROXY=\x00s3cret":                  "ALL_PROXY",
		"ALL_PROXY=a NO_PROXY=a,b,*x":           "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=10.0.0.0/33":      "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=a:0":              "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=.1.2.3.4:80":      "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=\x1b[31m":         "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=http://x":         "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=..x":              "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=" + tooMany("a,"): "NO_PROXY",
		"ALL_PROXY=a NO_PROXY=" + tooMany("x"):  "NO_PROXY",
	} {
		first, second, two := strings.Cut(env, " NO_PROXY=")
		pairs := []string{first}
		if two {
			pairs = append(pairs, "NO_PROXY="+second)
		}
		u, err := UpstreamFrom(proxyEnvironment(pairs...))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != field || e.Hint == "" || u != nil {
			t.Errorf("%.60q: %v, %v", env, u, err)
			continue
		}
		if text := err.Error(); strings.Contains(text, "s3cret") || strings.ContainsAny(text, "\x00\x1b") || len(text) > 400 {
			t.Errorf("%.60q: the error is not fit to be shown: %q", env, text)
		}
	}
}

func tooMany(entry string) string { return strings.Repeat(entry, maxBypass+1) }

// TestChoice checks which proxy is used for which host.
func TestChoice(t *testing.T) {
	const exceptions = "direct.example, .below.example,*.star.example 10.0.0.0/8,192.0.2.7,2001:db8::/32,port.example:8443,[2606:4700::1]:443,::ffff:198.51.100.0/120"
	u, err := UpstreamFrom(proxyEnvironment("HTTP_PROXY=p80", "HTTPS_PROXY=other", "NO_PROXY="+exceptions))
	if err != nil {
		t.Fatal(err)
	}
	all, err := UpstreamFrom(proxyEnvironment("ALL_PROXY=p", "NO_PROXY=x,*"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		u    *Upstream
		host string
		to   string
		want string
	}{
		{u, "a.example", "1.1.1.1:443", "http://other:80"}, {u, "a.example", "1.1.1.1:80", "http://p80:80"}, {u, "a.example", "1.1.1.1:8080", "http://other:80"},
		{u, "direct.example", "1.1.1.1:443", "none"}, {u, "x.direct.example", "1.1.1.1:443", "none"}, {u, "indirect.example", "1.1.1.1:443", "http://other:80"},
		{u, "direct.example.evil.example", "1.1.1.1:443", "http://other:80"},
		{u, "below.example", "1.1.1.1:443", "http://other:80"}, {u, "x.below.example", "1.1.1.1:443", "none"}, {u, "x.y.star.example", "1.1.1.1:443", "none"}, {u, "star.example", "1.1.1.1:443", "http://other:80"},
		{u, "a.example", "10.1.1.1:443", "none"}, {u, "10.1.1.1", "10.1.1.1:443", "none"}, {u, "a.example", "192.0.2.7:443", "none"}, {u, "a.example", "192.0.2.8:443", "http://other:80"},
		{u, "a.example", "[2001:db8::1]:443", "none"}, {u, "a.example", "[2606:4700::1]:443", "none"}, {u, "a.example", "[2606:4700::1]:80", "http://p80:80"}, {u, "a.example", "198.51.100.3:443", "none"},
		{u, "port.example", "1.1.1.1:8443", "none"}, {u, "port.example", "1.1.1.1:443", "http://other:80"},
		{u, "a.example", "127.0.0.1:443", "none"}, {u, "a.example", "[::1]:80", "none"}, {u, "a.example", "169.254.169.254:80", "none"}, {u, "a.example", "[fe80::1]:80", "none"},
		{all, "a.example", "1.1.1.1:443", "none"}, {nil, "a.example", "1.1.1.1:443", "none"},
	}
	for _, tt := range tests {
		h, err := network.Canonical(tt.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.u.choose(h, netip.MustParseAddrPort(tt.to)).String(); got != tt.want {
			t.Errorf("%s at %s: through %s, want %s", tt.host, tt.to, got, tt.want)
		}
	}
}
