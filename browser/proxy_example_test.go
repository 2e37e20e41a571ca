package browser_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/bulkhead-dev/sandbox/browser"
)

// A held is the container that the CDP proxy connects to.
type held struct{ browser.Container }

func (h held) Dial(ctx context.Context) (net.Conn, error) {
	return h.Container.Dial(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", h.Settings().CDPPort))
}

// Example opens a CDP proxy and prints what a client needs.
func Example() {
	var start func(context.Context) (browser.Container, error) // makes sure that the browser runs

	b, err := browser.OpenProxy(browser.ProxyOptions{
		Upstream: func(ctx context.Context) (browser.Upstream, error) {
			c, err := start(ctx)
			if err != nil {
				return nil, err
			}
			return held{c}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	fmt.Println("connectOverCDP:", b.URL())
}
