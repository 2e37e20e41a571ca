package secret

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// beyondReach returns an error for a host path that code in a sandbox could
// have created or could replace: used as a secret's file it would send another
// host file to a server, used as a program it would run unsandboxed.
func (v *vault) beyondReach(h *held, file string) error {
	if len(v.deps.Exposed) == 0 {
		return nil
	}
	canonical, via, err := hostpath.Trace(file)
	if err != nil {
		return h.unread("is reached by a path that is not known", "", err)
	}
	for _, place := range append(via, canonical) {
		if slices.ContainsFunc(v.deps.Exposed, func(dir string) bool {
			return place != dir && strings.HasPrefix(place, strings.TrimSuffix(dir, "/")+"/")
		}) {
			return &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "read secret", Field: field(h.Name), Resource: file,
				Message: "the secret " + h.Name + " is reached through " + place + ", which code in a sandbox can write",
				Hint:    "keep it in a folder that no sandbox can write",
			}
		}
	}
	return nil
}

// commandBeyondReach returns an error for a command whose program, or a file
// named by an argument, could be replaced. program is its resolved path;
// arguments are read as paths from their first slash on, and relative ones
// from the root, where the command runs.
func (v *vault) commandBeyondReach(h *held, program string) error {
	if len(v.deps.Exposed) == 0 {
		return nil
	}
	files := []string{program}
	for _, a := range h.From.Command[1:] {
		if i := strings.IndexByte(a, '/'); i >= 0 {
			files = append(files, path.Clean(a[i:]))
		}
		files = append(files, filepath.Join("/", a))
	}
	for _, file := range files {
		if !filepath.IsAbs(file) {
			continue // not found, so starting it fails
		}
		if err := v.beyondReach(h, file); err != nil && sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked {
			return err
		} else if err != nil && file == program {
			return err
		}
	}
	return nil
}
