package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"github.com/bulkhead-dev/sandbox/statedir"
)

// hostname is what every sandbox calls itself.
const hostname = "sandbox"

// hostsText is /etc/hosts inside. The names of the host's own file mean
// addresses that no command reaches.
const hostsText = "127.0.0.1\tlocalhost\n" +
	"::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"127.0.0.1\t" + hostname + "\n"

// hosts returns the view of hostsText in place of the host's /etc/hosts, and
// makes the file. It returns no view where the host has no such file: nothing
// can be mounted at a name that a read-only folder lacks.
//
// The file is named by its content and never changes, because a sandbox that
// runs lies on it.
func (p *Provider) hosts() ([]plan.View, error) {
	const at = "/etc/hosts"
	target, err := hostpath.Canonical(at) // some systems have a link there
	if err != nil {
		return nil, err
	}
	if st, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return nil, nil
	} else if err != nil {
		return nil, err
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
	return []plan.View{{Source: path, Target: target, Why: "names of the loopback interface"}}, statedir.Unavailable("start", path, err)
}
