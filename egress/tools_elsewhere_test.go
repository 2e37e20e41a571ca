//go:build linux

package egress

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/policy"
)

// elsewhere has programs try hosts outside the allowed list: addresses of this
// machine in many spellings, redirects out of the list, and connections past
// the proxy. A trap reports every arrival.
func (s *fixture) elsewhere(t *testing.T) {
	trap := testenv.NewTrap(t, "127.0.0.1")
	traps := []*testenv.Trap{trap}
	if six := testenv.NewTrap(t, "::1"); six != nil {
		traps = append(traps, six)
	}
	port := ":" + strconv.Itoa(trap.Port())
	hosts := []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"localhost", "trap.test", "files.test.", "FILES.TEST", "169.254.169.254", "10.0.0.1", "[fd00::1]", "[fe80::1]",
	}
	for _, host := range hosts {
		t.Run("address "+host, func(t *testing.T) {
			// The whole request goes to the proxy: curl does not look at the
			// name.
			const curl = `curl -sS --max-time 60 --noproxy '' --proxy "$HTTP_PROXY" -o /dev/null -w 'answered %{http_code} %{http_connect}\n' `
			at := "'http://" + host + port + "/'"
			got := s.run(t, "address", curl+at+"; "+curl+"--proxytunnel "+at)
			if strings.Contains(got.out, "200") || strings.Count(got.out, "answered ") != 2 {
				t.Errorf("curl %s: exit %d, %s", at, got.code, got.out)
			}
			for _, e := range got.refused {
				if e.Verdict == policy.Allow {
					t.Errorf("told as refused: %+v", e)
				}
			}
		})
	}
	t.Run("redirect to another host", func(t *testing.T) {
		for _, target := range []string{"$OTHER", "$OTHER_PLAIN"} {
			for _, from := range []string{"$REDIRECT", "$REDIRECT_PLAIN"} {
				got := s.run(t, "redirect", `curl -sS -L --fail "`+from+`/?to=`+target+`/greeting.txt"`)
				if got.code == 0 {
					t.Errorf("%s to %s: %s", from, target, got.out)
				}
				s.wantRefused(t, got, testenv.Other)
			}
		}
		s.untouched(t)
	})
	t.Run("past the proxy", func(t *testing.T) {
		for _, p := range traps {
			got := s.run(t, "past", `curl -sS --noproxy '*' http://`+p.At()+`/`)
			if got.code == 0 {
				t.Errorf("without the proxy: %s", got.out)
			}
		}
		got := s.run(t, "past", `curl -sS --noproxy '*' "$FILES_PLAIN/greeting.txt"`)
		if got.code == 0 || s.net.Names == nil {
			t.Errorf("a name without the proxy: %s", got.out)
		}
	})
	for _, p := range traps {
		if p.Hits() > 0 {
			t.Errorf("the trap at %s was reached", p.At())
		}
	}
}

// TestToolsInAContainer runs what the image has by the descriptor, and a few of it
// by frames, which the proxy takes for connections like any other.
func TestToolsInAContainer(t *testing.T) {
	for _, way := range []string{"socket", "relay"} {
		t.Run(way, func(t *testing.T) {
			w := dockertest.New(t)
			spec := w.Spec("tools-" + way)
			spec.Resources.Memory, spec.Resources.MemorySwap = 512<<20, 512<<20
			if way == "relay" {
				var mounts []sandbox.Mount
				for _, m := range spec.Mounts {
					if m.Role != sandbox.RoleSocket {
						mounts = append(mounts, m)
					}
				}
				spec.Mounts = mounts
			}
			s := newFixture(t, w.Create(spec), dockertest.Workspace(spec))
			for i, tt := range append(onEveryProvider(), inTheImage()...) {
				t.Run(tt.name, func(t *testing.T) {
					if way == "relay" && i > 2 {
						testenv.Exhaustive(t, "the same tool by the descriptor")
					}
					s.try(t, tt)
				})
			}
			t.Run("openssl", func(t *testing.T) {
				if way == "relay" {
					testenv.Exhaustive(t, "the same tool by the descriptor")
				}
				s.openssl(t)
			})
			t.Run("bash without a proxy", s.bash)
			t.Run("who goes elsewhere", s.elsewhere)
		})
	}
}

// inTheImage are tools that the image has, and the host perhaps not.
func inTheImage() []tool {
	const (
		apt  = `/usr/lib/apt/apt-helper -o Acquire::https::CAInfo=/workspace/ca.crt -o Acquire::Retries=0 download-file `
		perl = `perl -MHTTP::Tiny -e 'my $r = HTTP::Tiny->new->get($ARGV[0]); print $r->{reason}, " ", $r->{content}; exit !$r->{success}' `
	)
	return []tool{
		{name: "apt", allowed: apt + `"$FILES/greeting.txt" /tmp/apt && cat /tmp/apt`, says: testenv.Content, refused: apt + `"$OTHER/greeting.txt" /tmp/apt-other`},
		{name: "apt over plain http", allowed: apt + `"$FILES_PLAIN/greeting.txt" /tmp/apt-plain && cat /tmp/apt-plain`, says: testenv.Content, refused: apt + `"$OTHER_PLAIN/greeting.txt" /tmp/apt-other`},
		{name: "perl over plain http", allowed: perl + `"$FILES_PLAIN/greeting.txt"`, says: testenv.Content, refused: perl + `"$OTHER_PLAIN/greeting.txt"`},
	}
}

// openssl speaks TLS through CONNECT, with a server name that differs too.
func (s *fixture) openssl(t *testing.T) {
	const line = `p=${HTTPS_PROXY#http://}; p=${p#*@}; printf 'GET /greeting.txt HTTP/1.0\r\nHost: files.test\r\n\r\n' |
openssl s_client -quiet -verify_quiet -CAfile /workspace/ca.crt -proxy "${p%/}" -connect "${FILES#https://}" -ign_eof -servername `
	if got := s.run(t, "openssl", line+testenv.Files); !strings.Contains(got.out, strings.TrimSpace(testenv.Content)) {
		t.Errorf("the allowed host: exit %d:\n%s", got.code, got.out)
	}
	if got := s.run(t, "openssl", line+testenv.Other); strings.Contains(got.out, strings.TrimSpace(testenv.Content)) || s.net.Hits(testenv.Other) > 0 {
		t.Errorf("another server name than asked for: exit %d:\n%s", got.code, got.out)
	}
}

// bash connects directly: it reaches services inside, and only those.
func (s *fixture) bash(t *testing.T) {
	at, err := net.ResolveTCPAddr("tcp", s.net.At("http", "127.0.0.1"))
	toolsMust(t, err)
	got := s.run(t, "bash", `bash -c 'exec 3<>/dev/tcp/127.0.0.1/`+strconv.Itoa(at.Port)+` && echo connected'`)
	if strings.Contains(got.out, "connected") {
		t.Errorf("a server of the host was reached: %s", got.out)
	}
	got = s.run(t, "bash", `p=${HTTP_PROXY#http://}; p=${p#*@}; p=${p%/}; export P="${p##*:}"
bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$P"; printf "GET http://`+s.net.At("http", testenv.Files)+`/greeting.txt HTTP/1.0\r\nHost: `+s.net.At("http", testenv.Files)+`\r\n\r\n" >&3; cat <&3'`)
	if !strings.Contains(got.out, strings.TrimSpace(testenv.Content)) {
		t.Errorf("a request by hand: %s", got.out)
	}
}
