//go:build linux

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

// browserSettings are those by default, but for limits that would end a
// measurement, and for sweeps, which would take the sandbox of the rig.
const browserSettings = `{"agents":{"defaults":{"sandbox":{"prune":{"every":"0s"},"browser":{"enabled":true,"autoStartTimeout":"60s",
	"limits":{"navigations":10000,"screenshotsPerMinute":6000}}}}}}`

// Browsers are the browsers of a rig, brought up as sandbox(1) does it.
type rigBrowsers struct {
	*display.Display
	r *rig
	m *manager.Manager
}

// OpenBrowsers returns them; Close ends them. Without the image of browsers it
// is [sandbox.CodeUnsupported].
func (r *rig) OpenBrowsers(ctx context.Context) (*rigBrowsers, error) {
	if r.browsers != nil {
		return r.browsers, nil
	}
	if err := exec.CommandContext(ctx, "docker", "image", "inspect", about.BrowserImage).Run(); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeUnsupported, "open browsers", "there is no image %s", about.BrowserImage)
	}
	settings, err := config.Parse("bench", []byte(browserSettings))
	if err != nil {
		return nil, err
	}
	set, err := provider.New(r.Provider)
	if err != nil {
		return nil, err
	}
	api, err := container.Dial()
	if err != nil {
		return nil, err
	}
	r.later(func(context.Context) error { return api.Close() })
	log := logrus.New()
	log.SetLevel(logrus.WarnLevel)
	m, err := manager.New(manager.Options{
		Settings: settings, State: r.state, Providers: set,
		Images: images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(r.state.Locks(), "images")})},
		Host: manager.Host{
			CPUs: runtime.NumCPU(), Memory: r.Posture.Memory, Sensitive: []string{r.state.Path(), "/run/docker.sock"},
			Guest: func() (sandbox.GuestRef, error) { return r.Spec.Guest, nil },
		},
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	r.browsers = &rigBrowsers{Display: display.New(manager.BrowserBackend(m), log), r: r, m: m}
	r.later(func(context.Context) error {
		r.browsers.Display.Close()
		return m.Close()
	})
	return r.browsers, nil
}

// BrowserOf is a request for the browser of a session.
func browserOf(session string) display.Request {
	return display.Request{Who: config.Who{Agent: "main", Session: "bench-" + session}}
}

// Page puts a page into the workspace of a request.
func (b *rigBrowsers) Page(ctx context.Context, r display.Request, name, text string) error {
	w, err := b.m.BrowserWorkspace(ctx, r.Who, r.Flags)
	if err != nil {
		return err
	}
	path := filepath.Join(w.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Chown(path, w.UID, w.GID)
}

// Plain starts a browser by the engine alone, and returns where its protocol
// will answer. Remove removes it by its name.
func (b *rigBrowsers) Plain(ctx context.Context, name string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return "", err
	}
	_, err = b.r.Plain.Browser(ctx, name, about.BrowserImage, port.Port, nil)
	return port.String(), err
}
