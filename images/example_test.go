package images_test

import (
	"context"
	"fmt"
	"os"

	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// Ensure gives the identity that a sandbox is made from. The image is built
// when it is not there, with progress on standard error.
func ExampleStore_Ensure() {
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	store := images.New(engine, images.Config{LockDir: "/var/lib/sandbox/locks"})
	base, err := store.Ensure(context.Background(), images.DefaultImage, images.Options{Progress: about.NewProgress(os.Stderr)})
	if err != nil {
		fmt.Println(err)
		return
	}
	img, err := store.EnsureSetup(context.Background(), base, []string{"apt-get update && apt-get install -y make"}, images.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(img.ID)
}

func ExampleNewLines() {
	p := images.NewLines(os.Stdout)
	p.Report(images.Event{Image: "debian:bookworm-slim", Phase: images.PhasePull, Text: "asking the registry"})
	p.Report(images.Event{Image: "debian:bookworm-slim", Phase: images.PhasePull, Part: "9f8", Text: "Downloading", Current: 1, Total: 2})
	p.Report(images.Event{Image: "debian:bookworm-slim", Phase: images.PhasePull, Part: "9f8", Text: "Pull complete"})
	// Output:
	// pull debian:bookworm-slim: asking the registry
	// pull debian:bookworm-slim: 9f8 Pull complete
}
