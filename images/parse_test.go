package images

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, d)
	}
}

func TestParseOSRelease(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want distro
	}{
		"debian":             {"ID=debian\nVERSION_CODENAME=trixie\n", distro{"debian", "trixie"}},
		"ubuntu":             {"NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n", distro{"ubuntu", "noble"}},
		"made from ubuntu":   {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n", distro{"ubuntu", "noble"}},
		"made from debian":   {"ID=x\nID_LIKE=debian\nDEBIAN_CODENAME=bookworm\n", distro{"debian", "bookworm"}},
		"quoted":             {"ID='debian'\nVERSION_CODENAME=\"bookworm\"\n", distro{"debian", "bookworm"}},
		"another family":     {"ID=fedora\nVERSION_CODENAME=\"\"\n", distro{"debian", "bookworm"}},
		"empty":              {"", distro{"debian", "bookworm"}},
		"suite like a flag":  {"ID=debian\nVERSION_CODENAME=--force\n", distro{"debian", "bookworm"}},
		"suite like a path":  {"ID=debian\nVERSION_CODENAME=../../x\n", distro{"debian", "bookworm"}},
		"debian without one": {"ID=debian\n", distro{"debian", "bookworm"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseOSRelease(strings.NewReader(tc.text)); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func FuzzOSRelease(f *testing.F) {
	f.Add("ID=debian\nVERSION_CODENAME=trixie\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d := parseOSRelease(strings.NewReader(text)); !word(d.id) || !word(d.suite) {
			t.Errorf("unsafe words %+v", d)
		}
	})
}

func TestHostSources(t *testing.T) {
	const deb822 = `# comment
Types: deb deb-src
URIs: http://mirror.example/debian
# inside
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: mirror+file:///etc/apt/mirrors/debian.list
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example
Suites: bookworm
Components: main

Types: deb-src
URIs: http://src.example
Suites: bookworm
Components: main

Types: deb
URIs: https://thirdparty.example
Suites: bookworm
Components: stable
`
	for name, tc := range map[string]struct {
		files map[string]string
		want  []aptSource
	}{
		"deb822": {map[string]string{"etc/apt/sources.list.d/debian.sources": deb822, "etc/apt/mirrors/debian.list": "# x\nhttp://m1/debian\tpriority:1\nhttp://m2/debian\n"}, []aptSource{
			{uris: []string{"http://mirror.example/debian"}, suites: []string{"bookworm", "bookworm-updates"}, components: []string{"main", "contrib"},
				signedBy: "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----"},
			{uris: []string{"http://m1/debian", "http://m2/debian"}, suites: []string{"bookworm-security"}, components: []string{"main"}},
		}},
		"one-line": {map[string]string{"etc/apt/sources.list": "# c\ndeb-src http://a bookworm main\n deb  [arch=amd64 signed-by=/k.gpg trusted=yes] http://a/ bookworm main # tail\ndeb cdrom:[x]/ bookworm main\ndeb http://a flat/\ndeb [broken http://a bookworm main\n",
			"etc/apt/sources.list.d/x.list": "deb http://a bookworm-security/updates main\n"}, []aptSource{
			{uris: []string{"http://a/"}, suites: []string{"bookworm"}, components: []string{"main"}, signedBy: "/k.gpg", trusted: true},
		}},
		"other release only": {map[string]string{"etc/apt/sources.list": "deb http://a trixie main\ndeb http://a bookworm-updates main\n"}, nil},
		"other file names":   {map[string]string{"etc/apt/sources.list.d/x.list.disabled": "deb http://a bookworm main\n"}, nil},
		"none":               {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			host := fstest.MapFS{}
			for n, c := range tc.files {
				host[n] = &fstest.MapFile{Data: []byte(c)}
			}
			got := serving(hostSources(host), "bookworm")
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(aptSource{})); d != "" {
				t.Error(d)
			}
			again := serving(parseDeb822(strings.NewReader(renderDeb822(got))), "bookworm")
			if d := cmp.Diff(got, again, cmp.AllowUnexported(aptSource{})); d != "" {
				t.Errorf("rendering loses something:\n%s", d)
			}
		})
	}
}

func FuzzAptSources(f *testing.F) {
	f.Add("deb [signed-by=/k] http://a bookworm main\n")
	f.Add("Types: deb\nURIs: http://a\nSuites: bookworm\nComponents: main\nSigned-By:\n x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, src := range append(parseOneLine(strings.NewReader(text)), parseDeb822(strings.NewReader(text))...) {
			if len(src.uris) == 0 || len(src.suites) == 0 || len(src.components) == 0 {
				t.Errorf("incomplete source %+v", src)
			}
			// Nothing in a value can begin a field or a stanza of its own.
			if n := len(parseDeb822(strings.NewReader(renderDeb822([]aptSource{src})))); n > 1 {
				t.Errorf("one source became %d: %+v", n, src)
			}
		}
	})
}

func TestOfficialSources(t *testing.T) {
	const example = "# own sources\ndeb http://archive.invalid/debian bookworm main contrib non-free\n" +
		"deb [trusted=yes] http://archive.invalid/debian bookworm-updates main contrib\ndeb http://archive.invalid/debian-security bookworm-security main\n" +
		"deb http://archive.invalid/debian bookworm-backports main\n#deb-src http://archive.invalid/debian bookworm main\n"
	var b strings.Builder
	for name, text := range map[string]string{"bookworm": example} {
		host := fstest.MapFS{exampleSources: &fstest.MapFile{Data: []byte(text)}}
		b.WriteString("== " + name + "\n" + renderDeb822(officialSources(host, distro{"debian", name})))
	}
	golden(t, "official-sources.golden", b.String())
	for name, host := range map[string]fstest.MapFS{
		"no file":     {},
		"other suite": {exampleSources: &fstest.MapFile{Data: []byte(example)}},
		"garbage":     {exampleSources: &fstest.MapFile{Data: []byte("deb deb deb\n\x00")}},
	} {
		if got := officialSources(host, distro{"debian", "trixie"}); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPlan(t *testing.T) {
	s := fakeStore(t, newFake(), Config{})
	s.getenv = func(k string) string { return map[string]string{"https_proxy": "http://p:1"}[k] }
	for name, tc := range map[string]struct {
		look func(string) (string, error)
		tool string
		code sandbox.Code
	}{
		"mmdebstrap is preferred": {func(n string) (string, error) { return "/x/" + n, nil }, "/x/mmdebstrap", ""},
		"debootstrap else": {func(n string) (string, error) {
			if n == "mmdebstrap" {
				return "", os.ErrNotExist
			}
			return "/x/" + n, nil
		}, "/x/debootstrap", ""},
		"neither": {func(string) (string, error) { return "", os.ErrNotExist }, "", sandbox.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s.look = tc.look
			p, err := s.plan(s.recipes[0])
			if p.tool != tc.tool || sandbox.CodeOf(err) != tc.code {
				t.Fatalf("got %q, %v", p.tool, err)
			}
			if p.ref() != "sandbox-base:bookworm-bootstrap" || len(p.env) != 1 || len(p.sources) != 2 || p.sources[0].signedBy != "" {
				t.Errorf("plan %+v", p)
			}
		})
	}
}

func TestPlanWithoutSources(t *testing.T) {
	s := fakeStore(t, newFake(), Config{})
	s.host = fstest.MapFS{}
	s.look = func(n string) (string, error) { return "/x/" + n, nil }
	if _, err := s.plan(s.recipes[0]); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestMmdebstrapArgs(t *testing.T) {
	p := plan{distro: distro{"debian", "bookworm"}, packages: []string{"bash", "git"}}
	got := mmdebstrapArgs(p, []string{`Acquire::http::Proxy "http://p"`})
	want := []string{"--verbose", "--variant=minbase", "--format=tar", "--include=bash,git", `--aptopt=Acquire::http::Proxy "http://p"`, "bookworm", "-", "-"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestReachOptions(t *testing.T) {
	const dump = `APT "";
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://p:3128";
Acquire::https::CAInfo "/etc/ssl/own.pem";
Acquire::https::Verify-Peer "false";
Acquire::AllowInsecureRepositories "1";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
DPkg::Post-Invoke:: "rm -rf /";
`
	want := []string{`Acquire::http::Proxy "http://p:3128"`, `Acquire::https::CAInfo "/etc/ssl/own.pem"`, `Acquire::Check-Valid-Until "false"`, `Acquire::Retries "3"`}
	if d := cmp.Diff(want, reachOptions(strings.NewReader(dump))); d != "" {
		t.Error(d)
	}
}

func TestFollow(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		n    int
		fail string
	}{
		"empty":            {"", 0, ""},
		"several":          {`{"stream":"a"}` + "\r\n\n" + `{"status":"b"}`, 2, ""},
		"odd aux":          {`{"aux":"text","stream":"x"}`, 1, ""},
		"error":            {`{"stream":"a"}` + "\n" + errLine("bad"), 1, "bad"},
		"old error":        {`{"error":"old"}`, 0, "old"},
		"half a message":   {`{"stream":"a`, 0, "broke off"},
		"no JSON":          {"<html>", 0, "broke off"},
		"beyond all bound": {`{"stream":"` + strings.Repeat("x", maxMessage) + `"}`, 0, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			err := follow(strings.NewReader(tc.text), func(message) { n++ })
			if n != tc.n || (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("%d messages, %v; want %d, %q", n, err, tc.n, tc.fail)
			}
		})
	}
}

func FuzzFollow(f *testing.F) {
	f.Add(`{"stream":"Step 1/2 : RUN x\n"}` + "\n" + `{"errorDetail":{"message":"m"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var out tail
		err := follow(strings.NewReader(text), func(m message) {
			if stepNumber(m.Stream) < 0 {
				t.Error("negative step")
			}
			out.write(m.Stream)
		})
		shown := out.String()
		var s *streamError
		if errors.As(err, &s) {
			shown += s.Error()
		}
		if strings.ContainsAny(strings.ReplaceAll(shown, "\n", ""), "\x00\x1b\r\x7f\u200b\u202e") || len(out.lines) > tailLines {
			t.Errorf("unsafe or unbounded: %q", shown)
		}
	})
}

func TestRecipesNameTheirPackages(t *testing.T) {
	for _, r := range ourRecipes() {
		if n := len(packagesOf(r.dockerfile)); n < 9 {
			t.Errorf("%s: %d packages found", r.ref, n)
		}
		want := []string{"ARG BUILD=", labelBuild, "USER sandbox", "ENTRYPOINT [", "ARG BASE=" + BaseImage + "\n"}
		for _, f := range r.files {
			want = append(want, "COPY "+f.name+" /")
		}
		for _, want := range want {
			if !strings.Contains(r.dockerfile, want) {
				t.Errorf("%s: no %q", r.ref, want)
			}
		}
	}
	if got := packagesOf(`ARG PACKAGES="bash; rm -rf /"` + "\n"); got != nil {
		t.Errorf("odd packages %q", got)
	}
}
