//go:build linux

package main

import (
	"context"
	"strconv"

	api "github.com/docker/docker/api/types/container"
)

// Browser starts Chromium in a container with the engine's defaults: without
// our sandbox, and with the network of the host, so that its protocol is served
// at a loopback port without anything between. It has no sandbox of its own,
// because the engine's filter lets it have none. The id is valid with an error
// too, unless it is empty: the caller removes the container.
func (e *plainEngine) Browser(ctx context.Context, name, image string, port int, labels map[string]string) (string, error) {
	made, err := e.api.ContainerCreate(ctx, &api.Config{
		Image: image, Labels: labels,
		Entrypoint: []string{
			"/usr/lib/chromium/chromium", "--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
			"--user-data-dir=/tmp/profile", "--remote-debugging-port=" + strconv.Itoa(port), "about:blank",
		},
	}, &api.HostConfig{NetworkMode: "host"}, nil, nil, name)
	if err != nil {
		return "", failed("create container", err)
	}
	return made.ID, failed("start container", e.api.ContainerStart(ctx, made.ID, api.StartOptions{}))
}
