package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

const hostname = sandbox.Hostname

// hostsText is /etc/hosts inside. The names of the host's own file mean
// addresses that no command reaches.
const hostsText = "127.0.0.1\tlocalhost\n" +
	"::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"127.0.0.1\t" + hostname + "\n"

// hosts returns s without its mount at /etc/hosts, and the view of that file in
// place of the host's own; of hostsText, which it writes to a file, where s has
// no such mount. It returns no view where the host has no such file: nothing can
// be mounted at a name that a read-only folder lacks.
//
// The file with hostsText is named by its content and never changes, because a
// sandbox that runs lies on it.
func (p *Provider) hosts(s sandbox.Spec) (sandbox.Spec, []plan.View, error) {
	own := ""
	s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool {
		if m.Target != sandbox.HostsFile || m.Role != sandbox.RoleIdentity {
			return false
		}
		own = m.Source
		return true
	})
	target, err := hostpath.Canonical(sandbox.HostsFile) // some systems have a link there
	if err != nil {
		return s, nil, err
	}
	if st, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return s, nil, nil
	} else if err != nil {
		return s, nil, err
	}
	view := func(path string) []plan.View {
		return []plan.View{{Source: path, Target: target, Why: "names of the loopback interface"}}
	}
	if own != "" {
		return s, view(own), nil
	}
	sum := sha256.Sum256([]byte(hostsText))
	path := filepath.Join(p.o.State, "local", "hosts-"+hex.EncodeToString(sum[:8]))
	have, err := os.ReadFile(path)
	if err != nil || string(have) != hostsText {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = renameio.WriteFile(path, []byte(hostsText), 0o644, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o644))
		}
	}
	return s, view(path), statedir.Unavailable("start", path, err)
}
