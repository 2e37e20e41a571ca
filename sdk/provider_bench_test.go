package sdk_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// BenchmarkTrue runs a command to its end in one container, directly and
// through a daemon on a unix socket, by turns of the same run.
func BenchmarkTrue(b *testing.B) {
	r := wall.New(b)
	id, err := exec.Command("docker", "image", "inspect", "-f", "{{.Id}}", wall.Image).Output()
	must(b, err)
	api, err := container.Dial()
	must(b, err)
	e := container.New(api, container.Deadlines{})
	b.Cleanup(func() { e.Close() })
	direct := docker.New(e, docker.Options{Sockets: r.State, World: r.World, Protection: filepath.Join(r.State.Path(), "docker")})
	s := r.Spec("bench")
	s.ImageID = strings.TrimSpace(string(id))
	_, err = direct.Create(b.Context(), s)
	must(b, err)
	b.Cleanup(func() { must(b, direct.Remove(context.Background(), s.Name)) })
	for _, way := range []struct {
		name string
		p    sandbox.Provider
	}{{"direct", direct}, {"daemon", behindDaemon(b, direct)}} {
		b.Run(way.name, func(b *testing.B) {
			sb, err := way.p.Open(b.Context(), s)
			must(b, err)
			defer sb.Close()
			for b.Loop() {
				p, err := sb.Start(b.Context(), sandbox.Command{Args: []string{"true"}})
				must(b, err)
				if exit, err := p.Wait(); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
			}
		})
	}
}
