package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// What a mount closes has to be there, so what is missing is made for as long as
// a container needs it. A container outlives its program; so which stubs it
// needs is on record below Options.Protection, one file for each container:
//
//	record the stubs · make them · create the container · (use) ·
//	remove the container · remove the stubs that no other record names · remove the record
//
// A record whose container is gone, after a crash or a removal by hand, is
// swept when sandboxes are listed or made.

const recordSuffix = ".json"

// needs is such a record.
type needs struct {
	Placeholders []plan.Placeholder `json:"stubs"`
	// Closed are the places inside at which something was mounted to close what
	// is there, or to show it again.
	Closed []string `json:"closed,omitempty"`
}

func (p *Provider) recordsDir() string { return filepath.Join(p.opts.Protection, "containers") }

func (p *Provider) recordOf(name string) string {
	return filepath.Join(p.recordsDir(), name+recordSuffix)
}

// openPlaceholders opens the records of placeholders.
func (p *Provider) openPlaceholders() (*hostscan.Placeholders, error) {
	d, err := hostscan.OpenPlaceholders(filepath.Join(p.opts.Protection, "stubs"))
	if err == nil {
		d.Owned = true
	}
	return d, err
}

// scanner returns what looks through the folders of a sandbox, which remembers
// what it saw.
func (p *Provider) scanner(name string) *hostscan.Scanner {
	p.protected.Lock()
	defer p.protected.Unlock()
	if p.scanners == nil {
		p.scanners = map[string]*hostscan.Scanner{}
	}
	if p.scanners[name] == nil {
		p.scanners[name] = hostscan.New(hostscan.Limits{})
	}
	return p.scanners[name]
}

// creating keeps others from sweeping while a container is made, whose record
// is there before it. With sweep it is the other side, and reports false where
// a container is being made.
func (p *Provider) creating(ctx context.Context, sweep bool) (unlock func(), ok bool, err error) {
	if _, err := statedir.MakePrivate(p.opts.Protection); err != nil {
		return nil, false, err
	}
	if _, err := statedir.MakePrivate(p.recordsDir()); err != nil {
		return nil, false, err
	}
	l := flock.New(filepath.Join(p.opts.Protection, "creating.lock"), flock.SetPermissions(0o600))
	if sweep {
		ok, err = l.TryLock()
	} else {
		ok, err = l.TryRLockContext(ctx, 5*time.Millisecond)
	}
	if err != nil || !ok {
		return nil, false, err
	}
	return func() { l.Unlock() }, true, nil
}

// prepare makes the stubs that c needs, and records them as those of the
// container name. settle says what became of the container.
func (p *Provider) prepare(ctx context.Context, name string, c *protection) (settle func(made bool), err error) {
	if c == nil || len(c.mounts) == 0 && len(c.masks) == 0 {
		return func(bool) {}, nil
	}
	unlock, ok, err := p.creating(ctx, false)
	if err != nil || !ok {
		return nil, errors.Join(&sandbox.Error{Code: sandbox.CodeUnavailable, Op: "protect", Resource: name, Retryable: true, Message: "the records of what protects the host are locked"}, err)
	}
	placeholders, err := p.placeholders()
	if err != nil {
		unlock()
		return nil, err
	}
	if err := p.record(name, needs{Placeholders: c.plan.Placeholders, Closed: c.closed()}); err != nil {
		unlock()
		return nil, err
	}
	held, err := placeholders.Make(ctx, c.plan.Placeholders)
	if err != nil {
		err = errors.Join(err, p.letGo(ctx, name))
		unlock()
		return nil, err
	}
	return func(made bool) {
		err := held.Leave()
		if !made {
			err = errors.Join(err, p.letGo(context.WithoutCancel(ctx), name))
		}
		unlock()
		if err != nil {
			p.opts.Warn(name, "what closes missing files of the host was not put in order: "+err.Error())
		}
	}, nil
}

func (p *Provider) record(name string, list needs) error {
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(p.recordsDir(), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), p.recordOf(name))
}

func readNeeds(file string) (needs, error) {
	var n needs
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	return n, err
}

// closedIn returns whether the container name was made with something mounted at a
// place inside to close it.
func (p *Provider) closedIn(name string) (func(inside string) bool, error) {
	n, err := readNeeds(p.recordOf(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return func(inside string) bool {
		return slices.Contains(n.Closed, inside)
	}, nil
}

// maskFile returns the file that hides others: empty, and readable by no one.
func (p *Provider) maskFile() (string, error) {
	at := filepath.Join(p.opts.Protection, "mask")
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
	if err == nil {
		return at, f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	st, err := os.Lstat(at)
	if err == nil && (!st.Mode().IsRegular() || st.Size() != 0 || st.Mode().Perm() != 0) {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "protect", Resource: at, Message: "the file that hides others is no empty file without permissions", Hint: "remove it"}
	}
	return at, err
}

// maskDir returns a folder that hides others: no process can list it, and it holds the
// mount points within, as [protection.within] has them, and nothing else. Folders
// alike are one.
func (p *Provider) maskDir(within []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(within, "\x00")))
	base := filepath.Join(p.opts.Protection, "masks")
	at := filepath.Join(base, hex.EncodeToString(sum[:]))
	if _, err := os.Lstat(at); err == nil {
		return at, nil
	}
	if err := os.MkdirAll(base, 0o711); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(base, ".new-*")
	if err != nil {
		return "", err
	}
	var dirs []string
	for _, w := range within {
		rel, file := strings.CutPrefix(w, "/")
		dir := filepath.Join(temp, rel)
		if file {
			dir = filepath.Dir(dir)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		for d := dir; d != temp; d = filepath.Dir(d) {
			dirs = append(dirs, d)
		}
		if file {
			if err := os.WriteFile(filepath.Join(temp, rel), nil, 0); err != nil {
				return "", err
			}
		}
	}
	for _, d := range append(dirs, temp) {
		if err := os.Chmod(d, 0o111); err != nil {
			return "", err
		}
	}
	if err := os.Rename(temp, at); err != nil {
		if _, made := os.Lstat(at); made == nil {
			return at, nil
		}
		return "", err
	}
	return at, nil
}

// again makes stubs of the container name that are gone, so that it can be
// started. What has come to be in their places is mounted instead, and whether
// that is what has to be closed is looked at when it runs.
func (p *Provider) again(ctx context.Context, name string) error {
	if p.opts.Protection == "" {
		return nil
	}
	n, err := readNeeds(p.recordOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	placeholders, err := p.placeholders()
	if err != nil {
		return err
	}
	for _, s := range n.Placeholders {
		held, err := placeholders.Make(ctx, []plan.Placeholder{s})
		if err == nil {
			err = held.Leave()
		}
		if err != nil && sandbox.CodeOf(err) != sandbox.CodeBusy {
			return err
		}
	}
	return nil
}

// letGo removes the stubs of the container name that no other one needs, and
// its record. The container is gone.
func (p *Provider) letGo(ctx context.Context, name string) error {
	if p.opts.Protection == "" {
		return nil
	}
	p.protected.Lock()
	delete(p.scanners, name)
	delete(p.scanners, name+rulesSuffix)
	p.protected.Unlock()
	own, err := readNeeds(p.recordOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	others := map[string]bool{}
	names, err := p.recorded()
	if err != nil {
		return err
	}
	for _, other := range names {
		if other == name {
			continue
		}
		n, err := readNeeds(p.recordOf(other))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, s := range n.Placeholders {
			others[s.Path] = true
		}
	}
	var gone []string
	for _, s := range own.Placeholders {
		if !others[s.Path] {
			gone = append(gone, s.Path)
		}
	}
	placeholders, err := p.placeholders()
	if err != nil {
		return err
	}
	if err := placeholders.Drop(ctx, gone); err != nil {
		return err
	}
	if err := os.Remove(p.recordOf(name)); !errors.Is(err, fs.ErrNotExist) { // a sweep may have been faster
		return err
	}
	return nil
}

// letGoRemoved is letGo for a container that was removed. While another one is made,
// which may come to need the same, it leaves that to the next sweep.
func (p *Provider) letGoRemoved(ctx context.Context, name string) error {
	if p.opts.Protection == "" {
		return nil
	}
	if _, err := os.Lstat(p.recordOf(name)); errors.Is(err, fs.ErrNotExist) {
		return p.letGo(ctx, name) // which finds nothing to let go of
	}
	unlock, ok, err := p.creating(ctx, true)
	if err != nil || !ok {
		return err
	}
	defer unlock()
	return p.letGo(ctx, name)
}

// recorded returns the names of containers that have a record.
func (p *Provider) recorded() ([]string, error) {
	if p.opts.Protection == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(p.recordsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), recordSuffix); is && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// sweepProtection lets go of what containers needed that are gone, there being
// those of known at least.
func (p *Provider) sweepProtection(ctx context.Context, known []sandbox.Info) {
	names, err := p.recorded()
	if err != nil || len(names) == 0 {
		return
	}
	unlock, ok, err := p.creating(ctx, true)
	if err != nil || !ok {
		return // the next one sweeps
	}
	defer unlock()
	for _, name := range names {
		if slices.ContainsFunc(known, func(i sandbox.Info) bool { return i.Name == name }) {
			continue
		}
		if _, err := p.engine.Inspect(ctx, name); !sandbox.IsNotFound(err) {
			continue
		}
		if err := p.letGo(ctx, name); err != nil {
			p.opts.Warn(name, "what closed missing files of the host is left: "+err.Error())
		}
	}
}
