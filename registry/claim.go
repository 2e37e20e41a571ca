package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/google/renameio/v2"
)

const (
	slotClaimsDir = "claims"       // by slot
	nameClaimsDir = "claims/names" // by sandbox
	maxClaim      = 16 << 10       // bytes; a claim has about 600

	// setAsideClaim is the suffix of the name of a damaged claim. The sandbox
	// that claimed such a slot is unknown, so the slot is given to no other
	// sandbox.
	setAsideClaim = ".corrupt"
)

// A Claim says that the slot Slot of the pool is the sandbox Name. It never
// changes, and outlasts the slot: the sandbox keeps the slot's workspace, user
// and container name when it is made anew. It goes with the workspace.
//
// One file bears two names, that of the slot first: who finds a slot claimed by
// a sandbox that knows nothing of it has found what a dead process has left,
// in which nothing was run.
type Claim struct {
	Format    int           `json:"format"`
	Slot      string        `json:"slot"`
	Name      string        `json:"name"`
	Owner     sandbox.Owner `json:"owner"`
	Workspace string        `json:"workspace"` // host folder; empty where the slot has none of its own
	SlotHash  string        `json:"slotHash"`  // that the slot's labels say
	Hash      string        `json:"hash"`      // of what the slot has become
	ClaimedAt time.Time     `json:"claimedAt"`

	// ForAny says that the slot was made for no tenant. Slots of older versions
	// were made for the tenant that claims them.
	ForAny bool `json:"forAny,omitempty"`
}

// SlotTenant returns the tenant that the slot was made for, which its labels
// name: empty for a slot that any tenant may claim.
func (c Claim) SlotTenant() string {
	if c.ForAny {
		return ""
	}
	return c.Owner.Tenant
}

// Claim makes c, or returns [sandbox.CodeBusy] when the slot is claimed. From
// then on no other process gets the slot. settle makes the claim outlast a loss
// of power; the slot may be used before it is called, because no slot runs any
// more after such a loss.
func (s *Store) Claim(c Claim) (settle func() error, err error) {
	const op = "claim slot"
	c.Format = Format
	slot, name, err := s.claimPaths(c)
	if err != nil {
		return nil, err
	}
	if in, ok := s.in(); ok {
		return func() error { return nil }, in.claim(c, nil, false)
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, op, "cannot encode the claim: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, statedir.Unavailable(op, name, err)
	}
	tmp, err := renameio.NewPendingFile(slot, renameio.WithTempDir(filepath.Dir(slot)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return nil, statedir.Unavailable(op, slot, err)
	}
	if _, err = tmp.Write(append(data, '\n')); err == nil {
		err = os.Link(tmp.Name(), slot)
	}
	if err == nil {
		if err = os.Link(tmp.Name(), name); err != nil {
			err = errors.Join(err, os.Remove(slot))
		}
	}
	if err != nil {
		_ = tmp.Cleanup()
		if errors.Is(err, fs.ErrExist) {
			return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: c.Slot, Message: "the slot is claimed", Retryable: true, Err: err}
		}
		return nil, statedir.Unavailable(op, slot, err)
	}
	return func() error {
		err := errors.Join(tmp.Sync(), tmp.Cleanup(), statedir.SyncDir(filepath.Dir(name)), statedir.SyncDir(filepath.Dir(slot)))
		return statedir.Unavailable(op, slot, err)
	}, nil
}

// ClaimRecorded is Claim, and puts r, the record of the sandbox, in the place of that of
// the slot. It is for the view of a provider whose records are kept elsewhere, where
// each change is a request, and all of it has happened when ClaimRecorded returns. With
// an error that does not say what came of it, the slot stays claimed. last says that the
// caller changes nothing more under the ensure lock of the sandbox, see
// [statedir.Finisher].
func (s *Store) ClaimRecorded(c Claim, r Record, last bool) error {
	c.Format = Format
	if _, _, err := s.claimPaths(c); err != nil {
		return err
	}
	in, ok := s.in()
	if !ok {
		return sandbox.Errorf(sandbox.CodeInternal, "claim slot", "the provider %q has its records in the folder", s.provider)
	}
	return in.claim(c, &r, last)
}

func (s *Store) claimPaths(c Claim) (slot, name string, err error) {
	if err := errors.Join(statedir.CheckName(c.Slot), statedir.CheckName(c.Name)); err != nil {
		return "", "", err
	}
	return filepath.Join(s.root, slotClaimsDir, c.Slot+".json"), filepath.Join(s.root, nameClaimsDir, c.Name+".json"), nil
}

// ClaimPath returns where the claim of the sandbox name lies, whether there is one
// or not.
func (s *Store) ClaimPath(name string) string {
	return filepath.Join(s.root, nameClaimsDir, name+".json")
}

// ClaimOf returns the claim of the sandbox name; ok is false when it has none.
func (s *Store) ClaimOf(name string) (c Claim, ok bool, err error) {
	of := func(c Claim) string { return c.Name }
	if in, elsewhere := s.in(); elsewhere {
		d, err := in.Get(name)
		if err != nil {
			return c, false, err
		}
		return in.readClaim(name, d.Claim, of)
	}
	return s.readClaim(nameClaimsDir, name, of)
}

// ClaimOn returns the claim on a slot; ok is false when the slot has no claim.
func (s *Store) ClaimOn(slot string) (c Claim, ok bool, err error) {
	of := func(c Claim) string { return c.Slot }
	if in, elsewhere := s.in(); elsewhere {
		d, err := in.Get(slot)
		if err != nil {
			return c, false, err
		}
		return in.readClaim(slot, d.Claimed, of)
	}
	return s.readClaim(slotClaimsDir, slot, of)
}

func (s *Store) readClaim(dir, name string, of func(Claim) string) (c Claim, ok bool, err error) {
	if err := statedir.CheckName(name); err != nil {
		return c, false, err
	}
	path := filepath.Join(s.root, dir, name+".json")
	data, err := readBounded(path, maxClaim)
	if errors.Is(err, fs.ErrNotExist) {
		if dir == slotClaimsDir {
			if _, err := os.Lstat(path + setAsideClaim); !errors.Is(err, fs.ErrNotExist) {
				return c, false, damagedClaim(name, path+setAsideClaim, errors.Join(ErrCorrupt, err))
			}
		}
		return c, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if fi, lookErr := os.Lstat(path); err != nil && lookErr == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
		// A claim has its text before it has a name: this one was lost with
		// the power, before it was kept.
		return Claim{}, false, statedir.Unavailable("read claim", path, os.Remove(path))
	}
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong), errors.As(err, &syntax), errors.Is(err, ErrCorrupt):
		return s.mend(dir, name, path, fmt.Errorf("%w: %w", ErrCorrupt, err))
	case err != nil:
	case c.Format > Format:
		err = fmt.Errorf("%w: format %d", ErrNewer, c.Format)
	case of(c) != name || statedir.CheckName(c.Slot) != nil || statedir.CheckName(c.Name) != nil:
		return s.mend(dir, name, path, fmt.Errorf("%w: it is about %q", ErrCorrupt, of(c)))
	default:
		return c, true, nil
	}
	return Claim{}, false, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read claim", Resource: name, Message: "the claim cannot be read", Err: err,
		Hint: "move " + path + " away; the sandbox then starts afresh, with an empty workspace"}
}

// mend repairs a damaged claim. It restores the claim of a sandbox from the
// slot's claim, where that one is sound; it sets aside what it cannot restore,
// and the error says where that is. The record of a slot goes with its claim,
// so that the slot, which holds files of a session, never counts as free.
func (s *Store) mend(dir, name, path string, why error) (Claim, bool, error) {
	const op = "set claim aside"
	if dir == nameClaimsDir {
		slots, err := s.ClaimedSlots()
		if err != nil {
			return Claim{}, false, err
		}
		for _, slot := range slots {
			c, ok, err := s.ClaimOn(slot)
			if err != nil || !ok || c.Name != name {
				continue
			}
			if err := os.Rename(path, path+setAsideClaim); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return Claim{}, false, statedir.Unavailable(op, path, err)
			}
			if err := os.Link(filepath.Join(s.root, slotClaimsDir, slot+".json"), path); err != nil && !errors.Is(err, fs.ErrExist) {
				return Claim{}, false, statedir.Unavailable("restore claim", path, err)
			}
			return c, true, nil
		}
	} else if err := s.Delete(sandbox.KindPool, name); err != nil {
		return Claim{}, false, err
	}
	if err := os.Rename(path, path+setAsideClaim); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Claim{}, false, statedir.Unavailable(op, path, err)
	}
	return Claim{}, false, damagedClaim(name, path+setAsideClaim, why)
}

func damagedClaim(name, path string, why error) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "read claim", Resource: name, Message: "the claim was damaged, and is set aside", Err: why,
		Hint: "it is at " + path + "; a sandbox without its claim starts afresh with the next use, with an empty workspace, and a slot is removed when that file is",
	}
}

// ClaimedSlots lists the slots that are claimed, also by claims that cannot be
// read.
func (s *Store) ClaimedSlots() ([]string, error) {
	if in, ok := s.in(); ok {
		docs, err := in.List()
		var out []string
		for _, d := range docs {
			if d.Claimed != nil {
				out = append(out, d.Name)
			}
		}
		return out, err
	}
	dir := filepath.Join(s.root, slotClaimsDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, statedir.Unavailable("list claims", dir, err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			removeStale(filepath.Join(dir, e.Name()))
			continue
		}
		if name, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), setAsideClaim), ".json"); ok && statedir.CheckName(name) == nil && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// A SlotClaim is the claim on a slot as [Store.Claims] finds it.
type SlotClaim struct {
	Claim
	Whole bool  // the sandbox knows of it: it has a claim that can be read
	Err   error // why the claim on the slot cannot be read; Claim is empty then
}

// Claims returns the claims on all slots, by slot, in one look at what is kept elsewhere
// than in a folder. A slot that is not in it has none.
func (s *Store) Claims() (map[string]SlotClaim, error) {
	if in, ok := s.in(); ok {
		return in.claims()
	}
	slots, err := s.ClaimedSlots()
	if err != nil {
		return nil, err
	}
	out := map[string]SlotClaim{}
	for _, slot := range slots {
		c, ok, err := s.ClaimOn(slot)
		if !ok && err == nil {
			continue
		}
		one := SlotClaim{Claim: c, Err: err}
		if err == nil {
			_, known, err := s.ClaimOf(c.Name)
			one.Whole = known && err == nil
		}
		out[slot] = one
	}
	return out, nil
}

// UnclaimSlot removes the claim on a slot of which its sandbox does not know.
func (s *Store) UnclaimSlot(slot string) error {
	if err := statedir.CheckName(slot); err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		return in.Change(slot, func(d *Document) error { d.Claimed = nil; return nil })
	}
	path := filepath.Join(s.root, slotClaimsDir, slot+".json")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable("remove claim", path, err)
	}
	return nil
}

// Unclaim removes the claim on a slot that is gone, with its workspace. A claim
// that is gone is not an error.
func (s *Store) Unclaim(c Claim) error {
	slot, name, err := s.claimPaths(c)
	if err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		err := in.Change(c.Name, func(d *Document) error { d.Claim = nil; return nil })
		if err == nil {
			err = in.Change(c.Slot, func(d *Document) error { d.Claimed = nil; return nil })
		}
		return err
	}
	for _, path := range []string{name, slot} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable("remove claim", path, err)
		}
	}
	return nil
}
