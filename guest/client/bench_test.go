package client_test

import (
	"context"
	"io"
	"os/exec"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// BenchmarkForkExecTrue measures what a command costs without a sandbox.
func BenchmarkForkExecTrue(b *testing.B) {
	for b.Loop() {
		must(b, exec.Command("/bin/true").Run())
	}
}

func BenchmarkExecTrue(b *testing.B) {
	c := startGuest(b).client(client.Options{})
	for b.Loop() {
		execTrue(b, c)
	}
}

func BenchmarkExecTrueParallel(b *testing.B) {
	c := startGuest(b).client(client.Options{})
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			execTrue(b, c)
		}
	})
}

func execTrue(b *testing.B, c *client.Client) {
	p, err := c.Start(context.Background(), sandbox.Command{Args: []string{"/bin/true"}})
	must(b, err)
	_, err = p.Wait()
	must(b, err)
}

func BenchmarkPing(b *testing.B) {
	c := startGuest(b).client(client.Options{})
	for b.Loop() {
		must(b, c.Ping(context.Background()))
	}
}

func BenchmarkStdout(b *testing.B) {
	c := startGuest(b).client(client.Options{})
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		p, err := c.Start(context.Background(), sandbox.Command{
			Args: []string{"head", "-c", "67108864", "/dev/zero"}, Stdout: io.Discard,
		})
		must(b, err)
		_, err = p.Wait()
		must(b, err)
	}
}
