package page

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/browser"
)

// Bounds of messages from the browser.
const (
	maxVersion = 64 << 10  // bytes of /json/version
	maxMessage = 64 << 20  // bytes of one message, but for pictures
	maxPicture = 256 << 20 // bytes of one message while a picture is awaited
	dialTime   = 30 * time.Second
)

// dial connects to the DevTools port inside.
func dial(ctx context.Context, c browser.Container) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Settings().CDPPort))
	transport := &http.Transport{
		DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: maxVersion,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx, "tcp", host) },
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	path, err := endpoint(ctx, client, host)
	if err != nil {
		return nil, lost(err)
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+host+path, &websocket.DialOptions{HTTPClient: client, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, lost(err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

// endpoint returns the WebSocket URL of the browser. Only the path of the
// answer is used, and only if it has the expected form.
func endpoint(ctx context.Context, client *http.Client, host string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/json/version", nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxVersion))
	if err != nil {
		return "", err
	}
	return endpointIn(response.StatusCode, data)
}

// endpointIn decodes the answer of /json/version.
func endpointIn(status int, data []byte) (string, error) {
	var version struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if status != http.StatusOK {
		return "", failed("the browser answers with status " + strconv.Itoa(status))
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return "", failed("the browser does not say who it is")
	}
	const prefix = "/devtools/browser/"
	_, id, ok := strings.Cut(version.URL, prefix)
	if !ok || id == "" || len(id) > 64 || strings.Trim(id, "0123456789abcdefABCDEF-") != "" {
		return "", failed("the browser names no address to be spoken to at")
	}
	return prefix + id, nil
}
