//go:build linux

package egress

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
)

// rule is the rule that refuses a host that no rule names.
const rule = "network.allowedDomains"

// A tool fetches something from an allowed host, and tries another.
type tool struct {
	name    string
	allowed string // a line of a shell
	says    string // output of the allowed one
	refused string
	// mute reports a tool that does not print the proxy's message.
	mute bool
	// again reports another command of a program that is among the tools already.
	again bool
}

// onEveryProvider returns tools that the container image has too.
func onEveryProvider() []tool {
	const urllib = `python3 -c 'import sys,urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())' `
	return []tool{
		// curl shows the reason of a refused CONNECT only when it is asked to talk.
		{name: "curl", allowed: `curl -sS "$FILES/greeting.txt"`, says: testenv.Content, refused: `curl -sSv "$OTHER/greeting.txt"`},
		{name: "curl over plain http", allowed: `curl -sS "$FILES_PLAIN/greeting.txt"`, says: testenv.Content, refused: `curl -sS --fail-with-body "$OTHER_PLAIN/greeting.txt"`},
		{name: "curl over socks5", mute: true, says: testenv.Content,
			allowed: `curl -sS --proxy "socks5h://${HTTP_PROXY#http://}" "$FILES/greeting.txt"`,
			refused: `curl -sS --proxy "socks5h://${HTTP_PROXY#http://}" "$OTHER/greeting.txt"`},
		{name: "git clone", mute: true, says: testenv.Content,
			allowed: `rm -rf /tmp/clone && git clone -q "$GIT` + testenv.Repository + `" /tmp/clone && cat /tmp/clone/README`,
			refused: `git clone -q "$OTHER` + testenv.Repository + `" /tmp/other`},
		{name: "git clone over plain http", says: testenv.Content,
			allowed: `rm -rf /tmp/plain && git clone -q "$GIT_PLAIN` + testenv.Repository + `" /tmp/plain && cat /tmp/plain/README`,
			refused: `git clone -q "$OTHER_PLAIN` + testenv.Repository + `" /tmp/other`},
		{name: "urllib", allowed: urllib + `"$FILES/greeting.txt"`, says: testenv.Content, refused: urllib + `"$OTHER/greeting.txt"`},
		{name: "urllib over plain http", allowed: urllib + `"$FILES_PLAIN/greeting.txt"`, says: testenv.Content, refused: urllib + `"$OTHER_PLAIN/greeting.txt"`},
	}
}

// onTheHost returns tools that are visible in a local sandbox if the host has
// them.
func onTheHost() []tool {
	const (
		requests = testenv.SystemPython + ` -c 'import sys,requests; r = requests.get(sys.argv[1]); r.raise_for_status(); print(r.text)' `
		pip      = `PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=1 PIP_BREAK_SYSTEM_PACKAGES=1 ` + testenv.SystemPython + ` -m pip `
		npm      = `mkdir -p /tmp/npm && cd /tmp/npm && npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 `
		goTool   = `export GOFLAGS=-modcacherw GOTOOLCHAIN=local GOSUMDB=off GOPATH=/tmp/gopath GOCACHE=/tmp/gocache; rm -rf /tmp/mod && mkdir /tmp/mod && cd /tmp/mod && go mod init example && `
		module   = testenv.PackageModule + `@v1.0.0`
		source   = `"$(go list -m -f '{{.Dir}}' ` + testenv.PackageModule + `)"/greeting.go`
		wget     = `wget -nv -t 1 -O - `
	)
	return []tool{
		{name: "wget", allowed: wget + `"$FILES/greeting.txt"`, says: testenv.Content, refused: wget + `"$OTHER/greeting.txt"`},
		{name: "wget over plain http", allowed: wget + `"$FILES_PLAIN/greeting.txt"`, says: testenv.Content, refused: wget + `"$OTHER_PLAIN/greeting.txt"`},
		{name: "requests", allowed: requests + `"$FILES/greeting.txt"`, says: testenv.Content, refused: requests + `"$OTHER/greeting.txt"`},
		{name: "pip install", says: testenv.PackageSays,
			allowed: pip + `install --no-deps --target /tmp/py --index-url "$INDEX/simple" greeting && PYTHONPATH=/tmp/py ` + testenv.SystemPython + ` -c 'import greeting; print(greeting.say())'`,
			refused: pip + `install --no-deps --target /tmp/no --index-url "$OTHER/simple" greeting`},
		{name: "pip download", again: true, says: "greeting-1.0-py3-none-any.whl",
			allowed: pip + `download --no-deps -d /tmp/wheels --index-url "$INDEX/simple" greeting && ls /tmp/wheels`,
			refused: pip + `download --no-deps -d /tmp/wheels --index-url "$OTHER/simple" greeting`},
		{name: "npm install", says: testenv.PackageSays, mute: true,
			allowed: npm + `--registry "$REGISTRY/" greeting && node -e 'console.log(require("greeting").say())'`,
			refused: npm + `--cache /tmp/fresh --registry "$OTHER/" greeting`},
		{name: "go mod download", again: true, says: testenv.PackageSays,
			allowed: goTool + `GOPROXY="$MODULES" go mod edit -require ` + module + ` && GOPROXY="$MODULES" go mod download ` + testenv.PackageModule + ` && cat ` + source,
			refused: goTool + `go clean -modcache && go mod edit -require ` + module + ` && GOPROXY="$OTHER" go mod download ` + testenv.PackageModule},
		{name: "go get", says: testenv.PackageSays,
			allowed: goTool + `GOPROXY="$MODULES" go get ` + module + ` && cat ` + source,
			refused: goTool + `go clean -modcache && GOPROXY="$OTHER" go get ` + module},
	}
}

// once skips another command of the same program, unless with "make test-all".
func (tt tool) once(t *testing.T) {
	t.Helper()
	if tt.again {
		testenv.Exhaustive(t, "another command of the same program")
	}
}

// try checks that the tool gets the allowed content and is refused the rest.
func (s *fixture) try(t *testing.T, tt tool) {
	id := "fetch " + tt.name
	got := s.run(t, id, tt.allowed)
	if got.code != 0 || !strings.Contains(got.out, strings.TrimSpace(tt.says)) || len(got.refused) > 0 {
		t.Errorf("the allowed host: exit %d, refused %+v, output:\n%s", got.code, got.refused, got.out)
	}
	if all := s.recorded(id); len(all) == 0 || slices.ContainsFunc(all, func(e Event) bool { return e.Verdict != policy.Allow }) {
		t.Errorf("recorded of the allowed host: %+v", all)
	}

	id = "try " + tt.name
	got = s.run(t, id, tt.refused)
	if got.code == 0 {
		t.Errorf("the other host: exit 0, output:\n%s", got.out)
	}
	if !tt.mute && !strings.Contains(got.out, "Blocked by sandbox: "+rule) && !strings.Contains(got.out, "rule: "+rule) {
		t.Errorf("the other host: its rule is not shown:\n%s", got.out)
	}
	s.wantRefused(t, got, testenv.Other)
	if len(s.recorded(id)) < len(got.refused) {
		t.Errorf("refused %+v, recorded %+v", got.refused, s.recorded(id))
	}
	s.untouched(t)
}

// wantRefused checks that the rule refused the host, and nothing else was
// refused.
func (s *fixture) wantRefused(t *testing.T, got outcome, host string) {
	t.Helper()
	if len(got.refused) == 0 {
		t.Errorf("no refusal is told for the command, output:\n%s", got.out)
	}
	for _, e := range got.refused {
		if e.Host != host || e.Verdict != policy.Deny || !strings.HasPrefix(e.Rule, rule) || e.Phase != PhaseDecision {
			t.Errorf("refused %+v, want %s by %s", e, host, rule)
		}
	}
}

// untouched checks that the other host was neither reached nor looked up.
func (s *fixture) untouched(t *testing.T) {
	t.Helper()
	if n := s.net.Hits(testenv.Other); n != 0 {
		t.Errorf("the other host was reached %d times", n)
	}
	if slices.Contains(s.net.Names.Asked(), testenv.Other) {
		t.Error("the other host was looked up")
	}
}

func TestToolsBehindTheLocalSandbox(t *testing.T) {
	testenv.Require(t, "nettools")
	s := localFixture(t)
	for _, tt := range slices.Concat(onEveryProvider(), onTheHost()) {
		t.Run(tt.name, func(t *testing.T) {
			tt.wantShown(t)
			tt.once(t)
			s.try(t, tt)
		})
	}
	t.Run("node fetch", s.nodeFetch)
	t.Run("who goes elsewhere", s.elsewhere)
}

// nodeFetch tries node's own fetch: releases that read the proxy variables
// reach what is allowed, older ones reach nothing at all.
func (s *fixture) nodeFetch(t *testing.T) {
	const fetch = `node -e 'fetch(process.argv[1]).then(async r => { console.log(r.status, r.statusText, await r.text()); process.exit(r.ok ? 0 : 3) }, e => { console.log(e, e.cause); process.exit(4) })' `
	if version := s.run(t, "node", "node --version").out; !honoursProxies(version) {
		t.Logf("node %s reads no proxy variables; fetch must reach nothing", strings.TrimSpace(version))
		before := s.net.Hits(testenv.Files)
		if got := s.run(t, "node", fetch+`"$FILES/greeting.txt"`); got.code != 4 || s.net.Hits(testenv.Files) != before {
			t.Errorf("exit %d:\n%s", got.code, got.out)
		}
		return
	}
	s.try(t, tool{name: "node fetch", allowed: fetch + `"$FILES/greeting.txt"`, says: testenv.Content, refused: fetch + `"$OTHER/greeting.txt"`, mute: true})
	s.try(t, tool{name: "node fetch of plain http", allowed: fetch + `"$FILES_PLAIN/greeting.txt"`, says: testenv.Content, refused: fetch + `"$OTHER_PLAIN/greeting.txt"`})
}

// honoursProxies reports whether a release of node reads NODE_USE_ENV_PROXY:
// 24 and later, and 22 from 22.21 on.
func honoursProxies(version string) bool {
	major, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err1 := strconv.Atoi(major)
	n, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (m >= 24 || m == 22 && n >= 21)
}

func TestReleasesOfNode(t *testing.T) {
	for version, want := range map[string]bool{
		"v24.0.0\n": true, "v25.1.0": true, "v22.21.0": true, "v22.20.9": false, "v23.11.0": false, "v20.20.2": false, "": false, "v22": false,
	} {
		if got := honoursProxies(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}
