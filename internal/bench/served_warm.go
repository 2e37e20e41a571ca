//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// warm measures requests for a sandbox of the daemon that runs and is connected,
// by a plain HTTP client on one kept connection: beside the daemon's answer to
// /healthz, so that the difference is what the daemon does for the request.
func (s *Session) warm(ctx context.Context) (operation, error) {
	const file = "bench-warm"
	d, name, err := s.servedBox(ctx)
	if err != nil {
		return operation{}, err
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<10/16)
	if _, err := d.Unix.WriteFile(ctx, name, file, bytes.NewReader(content), false); err != nil {
		return operation{}, err
	}
	box := api.Prefix + "/sandboxes/" + url.PathEscape(name)
	var body []byte
	holds := func(parts ...string) func(context.Context) error {
		return func(context.Context) error {
			for _, part := range parts {
				if !strings.Contains(string(body), part) {
					return wrong("the answer is %q", body)
				}
			}
			return nil
		}
	}
	ask := func(method, path, text string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			body, err = d.ask(ctx, method, path, text)
			return err
		}
	}
	same := func(context.Context) error {
		if !bytes.Equal(body, content) {
			return wrong("%d bytes came that are not the file", len(body))
		}
		return nil
	}
	return operation{rounds: 60, ways: []way{
		{name: WayHealth, turn: 20, take: timed(ask(http.MethodGet, "/healthz", ""), holds(`"ok"`))},
		{name: WayStatHTTP, turn: 20, take: timed(ask(http.MethodGet, box+"/files/workspace/"+file+"?stat", ""), holds(`"size":4096`))},
		{name: WayReadHTTP, turn: 20, take: timed(ask(http.MethodGet, box+"/files/workspace/"+file, ""), same)},
		{name: WayHTTP, turn: 20, take: timed(ask(http.MethodPost, box+"/exec", `{"args":["`+truePath+`"]}`), holds(`"exitCode":0`))},
		{name: WayGet, turn: 20, take: timed(ask(http.MethodGet, box, ""), holds(`"name":"`+name+`"`, `"status":"running"`))},
	}}, nil
}

// ask sends one request over the unix socket and returns the body of the answer,
// which must be a success. text is the body of the request, in JSON.
func (d *rigDaemon) ask(ctx context.Context, method, path, text string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if text != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := d.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = wrong("%s %s answers %s: %s", method, path, a.Status, body)
	}
	return body, err
}
