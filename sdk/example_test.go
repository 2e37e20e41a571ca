package sdk_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A backend that runs a line in the sandbox of a conversation. It needs a
// daemon: sandbox serve --listen tcp:127.0.0.1:8421, and a token for it.
func Example() {
	ctx := context.Background()
	c, err := sdk.NewAPI("tcp:127.0.0.1:8421", sdk.APIOptions{Token: os.Getenv("SANDBOX_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	box, err := c.CreateSandbox(ctx, api.CreateSandbox{Session: "chat-42"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.Exec(ctx, box.Name, api.Exec{Line: "echo hello; exit 3"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%sexit status %d\n", r.Stdout, r.ExitCode)
}
