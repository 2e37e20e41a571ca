package admission

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// marks record which sandboxes count for a token beside their tenant, for the
// next process: one small file for each sandbox that a caller with a token with
// a quota has made. Without a mark a sandbox counts for its tenant alone. A zero
// marks records nothing.
type marks struct {
	dir string
}

// maxMark bounds a mark, in bytes; a token has few ancestors.
const maxMark = 4 << 10

// dotted is the prefix of the name of a mark that is being written; no sandbox
// has such a name.
const dotted = ".new-"

// put records the accounts of a sandbox beside the tenant's, which is the first
// one.
func (m marks) put(name string, accounts []tenant.Account) error {
	if m.dir == "" {
		return nil
	}
	if len(accounts) < 2 {
		return m.drop(name)
	}
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	var names []string
	for _, a := range accounts[1:] {
		names = append(names, a.Name)
	}
	data, err := json.Marshal(names)
	if err != nil {
		return err
	}
	tmp := filepath.Join(m.dir, dotted+name)
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return statedir.Unavailable(op, m.dir, err)
	}
	if err := os.Rename(tmp, filepath.Join(m.dir, name)); err != nil {
		return statedir.Unavailable(op, m.dir, err)
	}
	return nil
}

// get returns the recorded accounts of a sandbox. They have no limits, because
// they are for what is already held.
func (m marks) get(name string) ([]tenant.Account, error) {
	if m.dir == "" || statedir.CheckName(name) != nil {
		return nil, nil
	}
	path := filepath.Join(m.dir, name)
	if st, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil || !st.Mode().IsRegular() || st.Size() > maxMark {
		return nil, errors.Join(errors.New("it is no file of ours"), err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	if err := json.Unmarshal(data, &names); err != nil {
		return nil, err
	}
	var out []tenant.Account
	seen := map[string]bool{}
	for _, n := range names {
		if strings.HasPrefix(n, "token ") && !seen[n] {
			seen[n] = true
			out = append(out, tenant.Account{Name: n, Limits: tenant.NoLimits()})
		}
	}
	return out, nil
}

// drop removes the mark of a sandbox.
func (m marks) drop(name string) error {
	if m.dir == "" || statedir.CheckName(name) != nil {
		return nil
	}
	if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable(op, m.dir, err)
	}
	return nil
}

// keep removes the marks of all sandboxes that are not held.
func (m marks) keep(held map[string]*held) error {
	if m.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return statedir.Unavailable(op, m.dir, err)
	}
	for _, e := range entries {
		if held[e.Name()] != nil {
			continue
		}
		if err := os.Remove(filepath.Join(m.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable(op, m.dir, err)
		}
	}
	return nil
}
