package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestTree packs the home, which is in memory, and makes it again what it was.
func TestTree(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := dockertest.New(t)
	sb, s := w.Open("tree")
	fork, _ := w.Open("tree-fork")
	const fill = `cd ~ && umask 022
mkdir -p .config/app .ssh many closed sticky
chmod 700 .ssh; chmod 1777 sticky
i=0; while [ $i -lt 1000 ]; do echo $i >many/$i; i=$((i+1)); done
echo key >.ssh/id; chmod 600 .ssh/id
printf 'a\0b' >binary; echo x >run; chmod 755 run
ln run hard; ln -s run soft; ln -s /usr/bin/env abs; ln -s ../../nowhere out; ln -s missing dangling
mkfifo pipe
: >"$(printf 'odd \377 name\n')"; : >-dash; : >.hidden
echo secret >shut; chmod 000 shut; echo x >closed/in; chmod 000 closed
truncate -s 5M sparse
touch -d '2020-01-02 03:04:05.123456789' run
touch -d '2019-01-02 03:04:05' .config`
	const list = `cd ~ && find . -mindepth 1 -printf '%p %y %m %n %l %T@\n' 2>/dev/null | sort; find . -type f -exec cksum {} + 2>/dev/null | sort; stat -c %a .; stat -c %b sparse; chmod 700 closed; cat closed/in; chmod 000 closed; chmod 400 shut; cat shut; chmod 000 shut`
	if out, code := sh(t, sb, fill); code != 0 {
		t.Fatal(out)
	}
	// A program of the shell makes a socket where there is one.
	if out, code := sh(t, sb, "cd ~ && mkdir -p mounted && perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"socket\")) or die'"); code != 0 {
		t.Fatal(out)
	}
	var archive bytes.Buffer
	start := time.Now()
	left, err := client.PackTree(ctx, sb, sandbox.HomeDir, &archive)
	must(t, err)
	t.Logf("packed %d bytes in %v", archive.Len(), time.Since(start))
	if len(left) != 1 || !strings.Contains(left[0], "socket") {
		t.Errorf("left out: %q", left)
	}
	if out, code := sh(t, sb, "rm ~/socket"); code != 0 {
		t.Fatal(out)
	}
	want, _ := sh(t, sb, list)
	if n := strings.Count(want, "\n"); n < 1020 {
		t.Fatalf("%d lines:\n%.2000s", n, want)
	}
	// A rollback: some are changed, some removed, some new.
	if out, code := sh(t, sb, "cd ~; echo changed >run; rm -rf many/1* .ssh soft; mkdir -p new/deep soft .config/app/more; echo x >new/deep/file; chmod 000 new/deep; chmod 000 new; chmod 777 many; ln -s /etc many/1"); code != 0 {
		t.Fatal(out)
	}
	for name, to := range map[string]sandbox.Sandbox{"rollback": sb, "fork": fork} {
		for range 2 {
			start = time.Now()
			must(t, client.UnpackTree(ctx, to, sandbox.HomeDir, bytes.NewReader(archive.Bytes())))
			t.Logf("%s in %v", name, time.Since(start))
			if got, _ := sh(t, to, list); got != want {
				t.Errorf("%s: %s", name, diffLines(want, got))
			}
		}
	}
	for what, bad := range map[string]string{"nothing": "", "no archive": strings.Repeat("x", 2000), "half": archive.String()[:archive.Len()/2]} {
		if err := client.UnpackTree(ctx, fork, sandbox.HomeDir, strings.NewReader(bad)); sandbox.CodeOf(err) != sandbox.CodeExecution {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, client.UnpackTree(ctx, fork, sandbox.HomeDir, bytes.NewReader(archive.Bytes())))
	if got, _ := sh(t, fork, list); got != want {
		t.Errorf("after a half one: %s", diffLines(want, got))
	}
	if _, err := client.PackTree(ctx, sb, "/missing", &archive); sandbox.CodeOf(err) != sandbox.CodeExecution || !strings.Contains(err.Error(), "/missing") {
		t.Errorf("a folder that is not there: %v", err)
	}
	_ = s
}

// diffLines returns the first lines in which two texts differ.
func diffLines(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for i := 0; i < max(len(a), len(b)) && len(out) < 5; i++ {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			out = append(out, fmt.Sprintf("line %d: %q, want %q", i, y, x))
		}
	}
	return strings.Join(out, "; ")
}
