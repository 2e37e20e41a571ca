package sdk_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// A program that runs a command in the sandbox of a conversation.
func Example() {
	ctx := context.Background()
	c, err := sdk.Open(ctx) // or sdk.Dial(ctx, "unix:/run/sandbox.sock")
	if err != nil {
		panic(err)
	}
	defer c.Close()
	sb, err := c.Sandbox(ctx, "chat-42")
	if err != nil {
		panic(err)
	}
	res, err := sb.Run(ctx, "sh", "-c", "echo $((6 * 7)); exit 3")
	fmt.Printf("%sexit code %d, error %v\n", res.Stdout, res.ExitCode, err)
	// Output:
	// 42
	// exit code 3, error <nil>
}

// Settings in Go take the place of the settings file, and options of a sandbox
// are laid over them.
func ExampleSettings() {
	ctx := context.Background()
	settings := config.NewBuilder().Provider("local").BlockCommand("curl*")
	c, err := sdk.Open(ctx, sdk.Settings(settings))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	sb, err := c.Sandbox(ctx, "settings",
		sdk.Agent("researcher"),
		sdk.Env("LANG", "C"),
		sdk.AllowDomain("example.com"),
		sdk.Limit(sdk.Limits{Timeout: time.Minute, Memory: 256 << 20, Processes: 50}),
	)
	if err != nil {
		panic(err)
	}
	_, err = sb.Run(ctx, "curl", "https://example.com")
	fmt.Println(sandbox.CodeOf(err))
	// Output: POLICY.DENY_TOOL
}
