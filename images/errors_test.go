package images

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/client"

	sandbox "github.com/bulkhead-dev/sandbox"
)

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
}

// TestAnEngineThatDoesNotLetUsIn asks through a socket of the engine that our
// user may not open: no start of the engine would help.
func TestAnEngineThatDoesNotLetUsIn(t *testing.T) {
	api, err := client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: refusing{}}), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.ImageInspect(t.Context(), "x")
	var e *sandbox.Error
	if !errors.As(engineError(t.Context(), "inspect image", "x", err), &e) || e.Code != sandbox.CodeUnavailable || e.Retryable || !strings.Contains(e.Hint, "group docker") {
		t.Errorf("got %v of %v", e, err)
	}
}
