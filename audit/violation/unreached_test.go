package violation_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
)

// TestUnreached checks which hosts are read from what programs say when a name or
// a route is missing, and that other messages name none.
func TestUnreached(t *testing.T) {
	for _, tt := range []struct{ said, command, want string }{
		{"curl: (6) Could not resolve host: example.com", "", "example.com"},
		{"curl: (6) Couldn't resolve host 'example.com'", "", "example.com"},
		{"curl: (7) Failed to connect to 93.184.216.34 port 80 after 0 ms: Couldn't connect to server", "", "93.184.216.34:80"},
		{"curl: (7) Failed to connect to 2606:2800:220:1::1 port 443 after 0 ms: Couldn't connect to server", "", "2606:2800:220:1::1:443"},
		{"wget: unable to resolve host address ‘example.com’", "", "example.com"},
		{"wget: bad address 'example.com'", "", "example.com"},
		{"fatal: unable to access 'https://github.com/a/b.git/': Could not resolve host: github.com", "", "github.com"},
		{"ssh: Could not resolve hostname github.com: Temporary failure in name resolution", "", "github.com"},
		{"ssh: connect to host 192.0.2.1 port 22: Network is unreachable", "", "192.0.2.1:22"},
		{"npm error request to https://npm.example.org/x failed, reason: getaddrinfo EAI_AGAIN npm.example.org", "", "npm.example.org"},
		{"Error: getaddrinfo ENOTFOUND example.com", "", "example.com"},
		{"Error: connect ENETUNREACH 192.0.2.1:443 - Local (0.0.0.0:0)", "", "192.0.2.1:443"},
		{"Get \"https://example.com/\": dial tcp: lookup example.com on 8.8.8.8:53: dial udp 8.8.8.8:53: connect: network is unreachable", "", "example.com"},
		{"go: example.com/x@v1: dial tcp: lookup go.example.org: Temporary failure in name resolution", "", "go.example.org"},
		{"dial tcp 192.0.2.1:80: connect: network is unreachable", "", "192.0.2.1:80"},
		{"WARNING: Retrying ... NewConnectionError(\"<HTTPSConnection(host='packages.example.org', port=443)>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution\")", "", "packages.example.org:443"},
		{"NameResolutionError(\"<HTTPSConnection>: Failed to resolve 'packages.example.org' ([Errno -3] Temporary failure in name resolution)\")", "", "packages.example.org"},
		{"E: Failed to fetch http://deb.example.org/x  Temporary failure resolving 'deb.example.org'", "", "deb.example.org"},
		{"Err:1 http://deb.example.org bookworm InRelease\n  Could not resolve 'deb.example.org'", "", "deb.example.org"},
		{"> Could not resolve all files for configuration ':compile'.", "", ""},
		{"Caused by: org.gradle.internal.resolve.ModuleVersionResolveException: Could not resolve a:b:1.", "", ""},
		{"npm error ERESOLVE could not resolve", "", ""},
		{"> Could not GET 'https://repo.maven.apache.org/maven2/a.pom'. Received status code 403 from server: Blocked by sandbox: network.allowedDomains", "", "repo.maven.apache.org:443"},
		{"could not resolve 'db'", "", "db"},
		{"Exception in thread \"main\" java.net.UnknownHostException: repo.maven.apache.org", "", "repo.maven.apache.org"},
		{"psql: error: could not translate host name \"db\" to address: Temporary failure in name resolution", "", "db"},
		{"ERROR 2005 (HY000): Unknown MySQL server host 'db' (-3)", "", "db"},
		{"ping: example.com: Temporary failure in name resolution", "", "example.com"},
		{"nc: getaddrinfo for host \"example.com\" port 80: Temporary failure in name resolution", "", "example.com:80"},
		{"bash: connect: Network is unreachable\nbash: line 1: /dev/tcp/192.0.2.1/80: Network is unreachable", "", "192.0.2.1:80"},
		{"urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "python3 -c 'urlopen(\"https://u:p@example.com:8443/x\")'", "example.com:8443"},
		{"OSError: [Errno 101] Network is unreachable", "python3 get.py", ""},
		{"\x1b[31mcurl: (6) Could not resolve host: example.com\x1b[0m", "", "example.com"},
		{"curl: (6) Could not resolve host: " + strings.Repeat("a", 300), "", ""},
		{"make: *** [Makefile:3: x] Error 1", "curl https://example.com", ""},
		{"ls: cannot access '/x': No such file or directory", "", ""},
	} {
		var got []string
		f := violation.Classify(nil, violation.Ending{
			Exit: sandbox.Exit{Code: 6}, Stderr: []byte(tt.said), Command: tt.command,
			Network: func(host string, port uint16) (string, string, bool) {
				if port != 0 {
					host += ":" + strconv.Itoa(int(port))
				}
				return host, "network.allowedDomains", true
			},
		})
		for _, v := range f.Violations {
			if v.Evidence != sandbox.EvidenceStrong || v.Kind != sandbox.ResourceNetwork || v.Operation != sandbox.OpConnect {
				t.Errorf("%q: %+v", tt.said, v)
			}
			got = append(got, v.Resource)
		}
		if strings.Join(got, " ") != tt.want || f.Blocked != (tt.want != "") {
			t.Errorf("%q: %q, blocked %v, want %q", tt.said, got, f.Blocked, tt.want)
		}
	}
}

// TestUnreachedBeside checks that a host which the proxy has refused is not
// reported a second time, nor what a command says that has succeeded.
func TestUnreachedBeside(t *testing.T) {
	seen := sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: "a.example:443", Rule: "network.allowedDomains"}
	e := violation.Ending{
		Exit: sandbox.Exit{Code: 6}, Stderr: []byte("Could not resolve host: a.example\nCould not resolve host: b.example"), Observed: []sandbox.Violation{seen},
		Network: func(host string, _ uint16) (string, string, bool) { return host, "network.allowedDomains", true },
	}
	if f := violation.Classify(nil, e); len(f.Violations) != 2 || f.Violations[1].Resource != "b.example" || f.Resource != "b.example" && f.Resource != "a.example:443" {
		t.Errorf("%+v", f)
	}
	e.Exit.Code = 0
	if f := violation.Classify(nil, e); len(f.Violations) != 1 || f.Blocked {
		t.Errorf("of a success: %+v", f)
	}
}

func FuzzUnreached(f *testing.F) {
	f.Add("Failed to connect to [::1]:99999 port 80: network is unreachable", "https://@:x")
	f.Fuzz(func(t *testing.T, said, command string) {
		violation.Classify(nil, violation.Ending{Exit: sandbox.Exit{Code: 1}, Stderr: []byte(said), Command: command,
			Network: func(host string, _ uint16) (string, string, bool) {
				if host == "" || len(host) > 253 {
					t.Errorf("host %q", host)
				}
				return host, "r", true
			}})
	})
}

// TestUnreachedInOutput checks that hosts are read from the end of the output too,
// where the error output names none and the command has failed.
func TestUnreachedInOutput(t *testing.T) {
	const maven = "[ERROR] Could not transfer artifact a:b:pom:1 from/to central (https://repo.maven.apache.org/maven2): repo.maven.apache.org: Temporary failure in name resolution\n"
	filler := strings.Repeat("x", violation.MaxStdout)
	for _, tt := range []struct {
		name, stdout, stderr string
		code                 int
		want                 string
	}{
		{"the output alone", maven, "Picked up JAVA_TOOL_OPTIONS: -Da=b\n", 1, "repo.maven.apache.org:443"},
		{"the error output says more", maven, "curl: (6) Could not resolve host: example.com\n", 1, "example.com"},
		{"a success", maven, "", 0, ""},
		{"long ago", maven + filler, "", 1, ""},
		{"at the end", filler + "\n" + maven, "", 1, "repo.maven.apache.org:443"},
		{"paths", "cat: /denied: Permission denied\n", "", 1, ""},
	} {
		f := violation.Classify(nil, violation.Ending{
			Exit: sandbox.Exit{Code: tt.code}, Stdout: []byte(tt.stdout), Stderr: []byte(tt.stderr),
			Network: func(host string, port uint16) (string, string, bool) {
				if port != 0 {
					host += ":" + strconv.Itoa(int(port))
				}
				return host, "network.allowedDomains", true
			},
		})
		var got []string
		for _, v := range f.Violations {
			got = append(got, v.Resource)
		}
		if strings.Join(got, " ") != tt.want || f.Blocked != (tt.want != "") {
			t.Errorf("%s: %q, blocked %v, want %q", tt.name, got, f.Blocked, tt.want)
		}
	}
}

// TestUnreachedByAddress checks that a program which the proxy has refused an address
// is not said to have left the proxy out.
func TestUnreachedByAddress(t *testing.T) {
	f := violation.Classify(nil, violation.Ending{
		Exit: sandbox.Exit{Code: 1}, Stderr: []byte("> Could not GET 'https://repo.example/a.pom'. Received status code 403 from server: Blocked by sandbox: address"),
		Network: func(host string, port uint16) (string, string, bool) { return host, "proxy: it was not asked", true },
	})
	if len(f.Violations) != 1 || f.Violations[0].Resource != "repo.example" || !strings.HasPrefix(f.Violations[0].Rule, "address: ") {
		t.Errorf("%+v", f.Violations)
	}
}
