package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// onHost opens the folder that the operand names, or the one that holds what
// it names. From there on nothing follows a link that leads out.
func onHost(o operand, exposed []string) (end, error) {
	folder, rest := o.path, ""
	if !o.isFolder() {
		folder, rest = filepath.Split(o.path)
		if folder == "" {
			folder = "."
		}
	}
	root, err := openFolder(folder, exposed)
	if err != nil {
		return end{}, err
	}
	e := end{files: fsbridge.NewHostFiles(root, "host:"+folder), path: rest, close: func() { root.Close() }}
	if !o.isContent() {
		e.name = filepath.Base(o.path)
	}
	return e, nil
}

// openFolder opens a folder of the host. The links on the way are those of
// the caller and are followed, but none that lies in an exposed folder, which
// code in a sandbox could have put there: a path into such a folder is opened
// from that folder on with os.Root, and one that comes back out is refused.
func openFolder(folder string, exposed []string) (*os.Root, error) {
	abs := folder
	if !filepath.IsAbs(folder) {
		wd, err := os.Getwd()
		if err != nil {
			return nil, noHostFolder(folder, err)
		}
		abs = wd + "/" + folder
	}
	canonical, via, err := hostpath.Trace(abs)
	if err != nil {
		return nil, err
	}
	for _, place := range via {
		if holder(place, exposed) != "" && !hostpath.Within(canonical, place) {
			return nil, &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "cp", Resource: termsafe.Line(folder),
				Message: "host:" + folder + " leads through " + place + ", which code in a sandbox can change",
				Hint:    "name the folder itself, or use sandbox:PATH",
			}
		}
	}
	safe := canonical
	if h := holder(canonical, exposed); h != "" {
		safe = h
	}
	root, err := os.OpenRoot(safe)
	if err != nil {
		return nil, noHostFolder(folder, err)
	}
	if safe == canonical {
		return root, nil
	}
	defer root.Close()
	inner, err := root.OpenRoot(strings.TrimPrefix(strings.TrimPrefix(canonical, safe), "/"))
	if err != nil {
		return nil, noHostFolder(folder, err)
	}
	return inner, nil
}

// holder returns the outermost exposed folder that path lies below, or "".
func holder(path string, exposed []string) string {
	sorted := slices.SortedFunc(slices.Values(exposed), func(a, b string) int { return len(a) - len(b) })
	for _, dir := range sorted {
		if path != dir && hostpath.Within(path, dir) {
			return dir
		}
	}
	return ""
}

func noHostFolder(folder string, err error) error {
	e := sandbox.Errorf(sandbox.CodeExecution, "cp", "host:%s cannot be opened as a folder: %w", folder, err)
	if os.IsNotExist(err) {
		e.Code = sandbox.CodeNotFound
	}
	return e
}
