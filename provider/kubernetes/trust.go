package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

const (
	trustVolume = "trust"

	// trustSize bounds the volume with certificates. A bundle has some 250 KiB.
	trustSize = 32 << 20

	// maxTrust bounds the files of one program, in bytes.
	maxTrust = 4 << 20

	// keptTrust is how many programs may have their certificates in a pod at a time.
	keptTrust = 7
)

// A trust has what the folder of public certificates of this program holds. A pod
// cannot mount it, so its files are written into a volume of the pod: into a folder
// that is named by their content, because the programs of a fleet have authorities of
// their own. The variables of a command name the folder of the program that runs it.
//
// The guest writes them as the sandbox's user, so commands can change them. They are
// what programs of this sandbox trust, and no secret is inside.
type trust struct {
	dir func() (string, error) // the folder; nil is none

	mu   sync.Mutex
	read certificates // as the folder was last
}

// certificates are the files of one folder, which are not changed.
type certificates struct {
	stamps []stamp
	id     string // names the content
	files  map[string][]byte
}

// A stamp identifies a version of a file that is replaced as a whole.
type stamp struct {
	name string
	size int64
	time time.Time
}

// within returns env, or a copy of it in which variables name the certificates as the
// pod has them, and brings those there unless it has them. Nothing is done where no
// variable names one.
func (t *trust) within(ctx context.Context, guest *client.Client, s sandbox.Spec, env map[string]string) (map[string]string, error) {
	const folder = sandbox.TrustDir + "/"
	if t.dir == nil || !slices.ContainsFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleTrust }) {
		return env, nil
	}
	names := func(value string) bool { return strings.Contains(value, folder) }
	if !slices.ContainsFunc(slices.Collect(maps.Values(env)), names) {
		return env, nil
	}
	dir, err := t.dir()
	var c certificates
	if err == nil {
		c, err = t.current(dir)
	}
	if err == nil {
		err = c.ensure(ctx, guest)
	}
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeOf(err), Op: "bring certificates", Resource: s.Name, Err: err,
			Message: "the certificates of the proxy cannot be written into the pod", Hint: "if the pod was made by an older version of the program, make it anew: sandbox recreate"}
	}
	out := maps.Clone(env)
	for name, value := range out {
		out[name] = strings.ReplaceAll(value, folder, c.folder()+"/")
	}
	return out, nil
}

// current returns the files of a folder of this machine.
func (t *trust) current(dir string) (certificates, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return certificates{}, err
	}
	c := certificates{files: map[string][]byte{}}
	total := int64(0)
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return certificates{}, err
		}
		if !fi.Mode().IsRegular() {
			continue
		}
		c.stamps = append(c.stamps, stamp{e.Name(), fi.Size(), fi.ModTime()})
		total += fi.Size()
	}
	if total > maxTrust {
		return certificates{}, sandbox.Errorf(sandbox.CodeBudgetExceeded, "read certificates", "%s has %d bytes of files, more than %d", dir, total, maxTrust)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read.files != nil && slices.Equal(t.read.stamps, c.stamps) {
		return t.read, nil
	}
	sum := sha256.New()
	for _, s := range c.stamps {
		data, err := os.ReadFile(filepath.Join(dir, s.name))
		if err != nil {
			return certificates{}, err
		}
		fmt.Fprintf(sum, "%s %d\n", s.name, len(data))
		sum.Write(data)
		c.files[s.name] = data
	}
	c.id = hex.EncodeToString(sum.Sum(nil)[:12])
	for name, data := range c.files {
		c.files[name] = bytes.ReplaceAll(data, []byte(sandbox.TrustDir+"/"), []byte(c.folder()+"/"))
	}
	t.read = c
	return c, nil
}

// folder is where the pod has the files.
func (c certificates) folder() string { return path.Join(sandbox.TrustDir, c.id) }

// ensure writes the files into the pod unless they are there. They appear all at once.
func (c certificates) ensure(ctx context.Context, guest *client.Client) error {
	files, err := guest.Files(func(p string) (client.Spot, error) {
		return client.Spot{Root: sandbox.TrustDir, Rel: strings.TrimPrefix(strings.TrimPrefix(p, sandbox.TrustDir), "/")}, nil
	})
	if err != nil {
		return err
	}
	if _, err := files.Lstat(ctx, c.folder()); err == nil || !sandbox.IsNotFound(err) {
		return err
	}
	if err := makeRoom(ctx, files); err != nil {
		return err
	}
	draft := path.Join(sandbox.TrustDir, "new-"+rand.Text())
	if err := files.Mkdir(ctx, draft, 0o755); err != nil {
		return err
	}
	for name, data := range c.files {
		if err = files.Write(ctx, path.Join(draft, name), bytes.NewReader(data), sandbox.WriteOptions{Perm: 0o644}); err != nil {
			break
		}
	}
	if err == nil {
		err = files.Rename(ctx, draft, c.folder())
	}
	if err != nil {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		_ = files.Remove(clean, draft, true)
		if _, there := files.Lstat(ctx, c.folder()); there == nil { // another call was first
			return nil
		}
	}
	return err
}

// makeRoom removes the certificates of all but the last programs. A program that goes
// on brings its own again with its next command.
func makeRoom(ctx context.Context, files *client.Files) error {
	entries, err := files.ReadDir(ctx, sandbox.TrustDir)
	if err != nil {
		return err
	}
	age := map[string]time.Time{}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return err
		}
		age[e.Name()] = fi.ModTime()
	}
	names := slices.SortedFunc(maps.Keys(age), func(a, b string) int { return age[b].Compare(age[a]) })
	for _, name := range names[min(len(names), keptTrust-1):] {
		if err := files.Remove(ctx, path.Join(sandbox.TrustDir, name), true); err != nil && !sandbox.IsNotFound(err) {
			return err
		}
	}
	return nil
}
