package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// lateGuest is a guest that begins only when there is a file "go" beside it. Its
// relay is at work at once.
const lateGuest = `#!/bin/sh
while [ "$1" != relay ] && ! [ -e ` + sandbox.GuestDir + `/bin/go ]; do sleep 0.05; done
exec ` + sandbox.GuestDir + `/bin/real "$@"
`

// lateSpec is a Spec with such a guest, and the folder of the guest.
func lateSpec(t *testing.T, w *dockertest.Rig, key string) (sandbox.Spec, string) {
	t.Helper()
	s, dir := w.Spec(key), t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "sandbox-guest"), []byte(lateGuest), 0o755))
	program, err := os.ReadFile(filepath.Join(w.Guest.Dir, "sandbox-guest"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "real"), program, 0o755))
	for i := range s.Mounts {
		if s.Mounts[i].Role == sandbox.RoleGuest {
			s.Mounts[i].Source = dir
		}
	}
	s.Guest.Dir = dir
	return s, dir
}

// A relaying engine is asked for a relay, and tells the number of each.
type relaying struct {
	docker.Engine
	asked *atomic.Int32
	at    func(number int32)
}

func (e relaying) Exec(ctx context.Context, name string, argv []string) (*container.Stream, error) {
	e.at(e.asked.Add(1))
	return e.Engine.Exec(ctx, name, argv)
}

// TestLateGuest holds that a guest which listens only after a relay has given it
// up is waited for, over both ways; and that this has an end.
func TestLateGuest(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(sandbox.Spec) sandbox.Spec{
		"socket": func(s sandbox.Spec) sandbox.Spec { return s },
		"relay":  withoutSocket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := dockertest.New(t)
			s, dir := lateSpec(t, w, name)
			s = way(s)
			e := relaying{w.Engine, new(atomic.Int32), func(number int32) {
				if number == 2 { // the first has given up
					must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
				}
			}}
			p := docker.New(e, docker.Options{Sockets: w.State, Ready: 2 * patience})
			_, err := p.Create(context.Background(), s)
			must(t, err)
			if out, code := sh(t, w.Reopen(s), "echo works"); out != "works" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		t.Parallel()
		w := dockertest.New(t)
		s, _ := lateSpec(t, w, "never")
		e := relaying{w.Engine, new(atomic.Int32), func(int32) {}}
		begin := time.Now()
		_, err := docker.New(e, docker.Options{Sockets: w.State, Ready: 14 * time.Second}).Create(context.Background(), s)
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("got %v", err)
		}
		// Each relay waits some seconds, so only a few fit into the time.
		if n := e.asked.Load(); n > 3 || time.Since(begin) > 2*patience {
			t.Errorf("%d relays in %v", n, time.Since(begin))
		}
	})
}

// TestRefusedRelay holds that a relay which fails in another way is not tried
// again.
func TestRefusedRelay(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	s, dir := lateSpec(t, w, "refused")
	s = withoutSocket(s)
	refusing := strings.Replace(lateGuest, "\n", "\n"+`[ "$1" != relay ] || { echo 'sandbox-guest: connect to the guest: no' >&2; exit 1; }`+"\n", 1)
	must(t, os.WriteFile(filepath.Join(dir, "sandbox-guest"), []byte(refusing), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	e := relaying{w.Engine, new(atomic.Int32), func(int32) {}}
	_, err := docker.New(e, docker.Options{Sockets: w.State, Ready: 2 * patience}).Create(context.Background(), s)
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "guest: no") || e.asked.Load() != 1 {
		t.Errorf("%v after %d relays", err, e.asked.Load())
	}
}
