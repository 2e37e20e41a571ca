package sdk

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A Port is a TCP port at which a program inside listens.
type Port = api.Port

// A Share is a link to a port inside, without its secret.
type Share = api.Share

// A NewShare is a share with its link and its secret.
type NewShare = api.NewShare

// Ports lists the TCP ports at which programs inside the sandbox name listen.
func (c *API) Ports(ctx context.Context, name string) (api.PortList, error) {
	return get[api.PortList](ctx, c, "list ports", one(name, "/ports"), nil)
}

// SharePort makes a link to a port inside the sandbox name.
func (c *API) SharePort(ctx context.Context, name string, in api.SharePort) (api.NewShare, error) {
	return post[api.NewShare](ctx, c, "share port", one(name, "/shares"), in)
}

// Shares lists the links to ports inside the sandbox name that are in force.
func (c *API) Shares(ctx context.Context, name string) (api.ShareList, error) {
	return get[api.ShareList](ctx, c, "list shares", one(name, "/shares"), nil)
}

// RevokeShare ends a link and cuts its connections.
func (c *API) RevokeShare(ctx context.Context, name, id string) error {
	return c.Call(ctx, Request{Op: "revoke share", Method: http.MethodDelete, Path: one(name, "/shares/"+url.PathEscape(id))}, nil)
}

// Ports lists the TCP ports at which programs inside the sandbox listen.
func (s *Sandbox) Ports(ctx context.Context) ([]Port, error) {
	out, err := s.api.Ports(ctx, s.name)
	return out.Items, err
}

// SharePort makes a link to a port inside, which is in force for so long; 0 is an
// hour. Only a sandbox of a daemon is reached by it.
func (s *Sandbox) SharePort(ctx context.Context, port int, ttl time.Duration) (NewShare, error) {
	return s.api.SharePort(ctx, s.name, api.SharePort{Port: port, TTLSeconds: int64((ttl + time.Second - 1) / time.Second)})
}

// Shares lists the links to ports inside that are in force.
func (s *Sandbox) Shares(ctx context.Context) ([]Share, error) {
	out, err := s.api.Shares(ctx, s.name)
	return out.Items, err
}

// RevokeShare ends a link and cuts its connections.
func (s *Sandbox) RevokeShare(ctx context.Context, id string) error {
	return s.api.RevokeShare(ctx, s.name, id)
}
