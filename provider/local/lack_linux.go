package local

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// noBwrap says that there is no bubblewrap at path, and how to get it.
func noBwrap(path string, cause error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: path, Message: "there is no bubblewrap, of which local sandboxes are made", Err: cause}
	for _, c := range launch.Checks() {
		if c.Name == "bwrap" {
			e.Hint = c.Look(context.Background(), launch.RealHost(path)).Fix
		}
	}
	return e
}

// findBwrap returns the absolute path of bubblewrap: the one that settings
// name, else the one that was in PATH when the Provider was made.
func (p *Provider) findBwrap(named string) (string, error) {
	path, err := named, error(nil)
	if path == "" {
		path, err = p.bwrap, p.bwrapErr
	}
	if err == nil && !filepath.IsAbs(path) {
		err = exec.ErrDot
	}
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(path); err == nil && !st.Mode().IsRegular() {
			err = fs.ErrInvalid
		}
	}
	if err != nil {
		return "", noBwrap(path, err)
	}
	return path, nil
}

// refuseRelease refuses kernels that only look like Linux: no instance can be
// built on them, whatever else is installed.
func refuseRelease(release string) error {
	if !launch.IsWSL1(release) {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "start", Resource: release, Message: "this is WSL 1, which has no Linux kernel and no namespaces",
		Hint: "in PowerShell: wsl --set-version DISTRIBUTION 2",
	}
}

// explainBwrap adds to e what bubblewrap's words mean for the machine.
func explainBwrap(e *sandbox.Error, stderr string) *sandbox.Error {
	why, fix := launch.RealHost("").Explain(stderr)
	e.Message += ": " + why
	e.Hint = fix
	return e
}

// Probe is ProbeWith without options.
func (p *Provider) Probe(ctx context.Context) error { return p.ProbeWith(ctx, nil) }

// ProbeWith reports whether an instance with these options can be put up here now,
// by putting up a tiny one.
func (p *Provider) ProbeWith(ctx context.Context, options map[string]any) error {
	if _, err := p.defs(); err != nil {
		return err
	}
	if p.landlock {
		if err := p.usable(options); err != nil {
			return err
		}
		if err := launch.RealHost("").Filters(); err != nil {
			return sandbox.Errorf(sandbox.CodeUnavailable, "probe", "the kernel hands no system calls to listeners: %w", err)
		}
		return nil
	}
	host, err := Host(options)
	if err != nil {
		return err
	}
	if err := refuseRelease(p.release()); err != nil {
		return err
	}
	if host.Bwrap, err = p.findBwrap(host.Bwrap); err != nil {
		return err
	}
	if err := p.trusted(host.Bwrap, nil); err != nil {
		return err
	}
	for _, c := range launch.Checks() {
		if err := ended(ctx, "probe"); err != nil {
			return err
		}
		if f := c.Look(ctx, host); f.Status == launch.StatusFail {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "probe", Resource: c.Name, Message: termsafe.Line(f.Detail), Hint: f.Fix}
		}
	}
	return nil
}
