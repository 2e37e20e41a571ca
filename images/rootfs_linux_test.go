package images

import (
	"bytes"
	"context"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeTool installs a shell script in the place of mmdebstrap.
func fakeTool(t *testing.T, body string) plan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mmdebstrap")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return plan{tool: file, distro: distro{"debian", "bookworm"}, packages: []string{"bash"},
		sources: []aptSource{{uris: []string{"http://m"}, suites: []string{"bookworm"}, components: []string{"main"}}},
		env:     []string{"http_proxy=http://p:1"}}
}

func TestToolEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "leaks")
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	var said []string
	err := makeRootfs(t.Context(), fakeTool(t, `echo "I: one" >&2; printf 'half' >&2; env; pwd; cat; echo "args: $*"; touch left`),
		func(l string) { said = append(said, l) }, &out)
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"http_proxy=http://p:1", "URIs: http://m", " bookworm - -", "LC_ALL=C.UTF-8"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "SECRET_TOKEN") {
		t.Error("the caller's environment leaked")
	}
	if strings.Join(said, "|") != "I: one|half" {
		t.Errorf("said %q", said)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestToolIsKilledWithItsChildren(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	child := 0
	err := makeRootfs(ctx, fakeTool(t, `sleep 300 & echo $! >&2; wait`), func(l string) {
		if n, err := strconv.Atoi(l); err == nil {
			child = n
			cancel()
		}
	}, &bytes.Buffer{})
	if err == nil || child == 0 {
		t.Fatalf("child %d, %v", child, err)
	}
	testenv.Until(t, "the child ends", func() bool {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/stat")
		zombie := strings.Contains(string(stat), ") Z ") // and waits for the process that adopted it
		return zombie || syscall.Kill(child, 0) != nil
	})
}

func TestScratchWithMountStays(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "mounting needs it")
	}
	dir := t.TempDir()
	below := filepath.Join(dir, "dev")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", below, "tmpfs", 0, "size=4k"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	defer func() { _ = syscall.Unmount(below, 0) }()
	said := ""
	removeScratch(dir, func(l string) { said = l })
	if _, err := os.Stat(below); err != nil || !strings.Contains(said, "still mounted") {
		t.Errorf("said %q; %v", said, err)
	}
}

func TestDebootstrapForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	testenv.Require(t, "root")
	tool, err := exec.LookPath("debootstrap")
	if err != nil {
		testenv.Lack(t, "debootstrap", err) // mmdebstrap is what is used where both are
	}
	p, err := New(newFake(), Config{}).plan(ourRecipes()[0])
	if err != nil {
		t.Fatal(err)
	}
	p.tool = tool
	var out bytes.Buffer
	p.packages = []string{"jq"}
	if err := makeRootfs(t.Context(), p, func(l string) { t.Log(l) }, &out); err != nil {
		t.Fatal(err)
	}
	var clean bytes.Buffer
	if err := scrub(&clean, &out, p.neutral, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(clean.Bytes(), []byte("./usr/bin/jq")) {
		t.Error("jq is not in it")
	}
}
