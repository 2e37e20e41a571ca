package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/workspace/media"
)

// mediaFrom is where files may be staged from: folders of this machine, and
// other machines. Either may be nil.
type mediaFrom struct {
	folders *media.Folders
	remote  *media.Remote
}

var _ media.Source = mediaFrom{}

// Open implements [media.Source].
func (f mediaFrom) Open(ctx context.Context, ref string) (io.ReadCloser, media.Info, error) {
	rest, remote := strings.CutPrefix(ref, remoteScheme)
	host, path, ok := strings.Cut(rest, "/")
	switch {
	case !remote && f.folders != nil:
		return f.folders.Open(ctx, ref)
	case remote && f.remote != nil && ok && !strings.Contains(host, ":"):
		return f.remote.Open(ctx, host+":/"+path)
	case remote && (!ok || strings.Contains(host, ":")):
		return nil, media.Info{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: opStage, Field: "ref", Message: "a file of another machine is written " + remoteScheme + "HOST/PATH, without user and port"}
	}
	return nil, media.Info{}, &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: opStage, Resource: ref, Message: "nothing may be staged from there for this tenant",
		Hint: "who runs the server names folders and machines in media of the settings",
	}
}

// mediaSource returns the source that files may be staged from. It treats a
// missing folder as empty. It leaves out a folder that a sandbox could have
// exchanged and logs that, because callers do not learn of folders of the host.
func (m *Manager) mediaSource(settings *config.Settings, from config.Media) (mediaFrom, error) {
	var src mediaFrom
	var folders []string
	for _, written := range from.Folders {
		folder, err := m.mediaFolder(settings, written)
		switch {
		case err == nil:
			folders = append(folders, folder)
		case errors.Is(err, fs.ErrNotExist):
			m.log.WithField("folder", written).Debug("there is no such media folder")
		default:
			m.log.WithError(err).WithField("folder", written).Warn("nothing is staged from this media folder")
		}
	}
	var err error
	if len(folders) > 0 {
		src.folders, err = media.NewFolders(folders...)
	}
	if err == nil && len(from.Remote) > 0 {
		src.remote, err = m.mediaMachines(from.Remote)
	}
	if err != nil {
		m.log.WithError(err).Error("the media settings cannot be used as they are")
		return src, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opStage, Message: "media cannot be staged now", Hint: "the log of the server says why"}
	}
	return src, nil
}

// mediaFolder makes a folder of the settings one that files may be taken from:
// absolute, there, and where no sandbox can write.
func (m *Manager) mediaFolder(settings *config.Settings, written string) (string, error) {
	dir, err := hostpath.Expand(written, m.host.Home, m.host.Env)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); err != nil {
		return "", err
	} else if !st.IsDir() {
		return "", fmt.Errorf("%q is no folder", dir)
	}
	exposed, err := m.inSandboxes(settings)
	if err != nil {
		return "", err
	}
	listening, err := m.listening()
	if err != nil {
		return "", err
	}
	canonical, err := hostpath.Canonical(dir)
	if err != nil {
		return "", err
	}
	for _, e := range exposed {
		if canonical == e || strings.HasPrefix(e, canonical+"/") {
			return "", fmt.Errorf("a sandbox can write %q, which lies in it", e)
		}
	}
	return dir, hardening.Source("media.folders", dir, sandbox.RoleWorkspace, hardening.World{
		Canonical: hostpath.Canonical, Via: via, Sensitive: m.host.Sensitive, Listening: listening, Home: m.host.Home, Exposed: exposed,
	}, hardening.Switches{})
}

// inSandboxes are the folders that some sandbox can write, canonical: its own
// workspaces and what the settings open.
func (m *Manager) inSandboxes(settings *config.Settings) ([]string, error) {
	out, err := m.exposed()
	if err != nil {
		return nil, err
	}
	roots, err := m.workspaceRoots(settings)
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		canonical, err := hostpath.Canonical(root)
		if err != nil {
			return nil, err
		}
		out = append(out, canonical)
	}
	return out, nil
}

// workspaceRoots are the folders below which scratch workspaces lie.
func (m *Manager) workspaceRoots(settings *config.Settings) ([]string, error) {
	out := []string{m.state.Workspaces()}
	for _, root := range config.WorkspaceRoots(settings) {
		dir, err := hostpath.Expand(root, m.host.Home, m.host.Env)
		if err != nil {
			return nil, err
		}
		out = append(out, dir)
	}
	return out, nil
}

// mediaMachines returns the source of files on other machines.
func (m *Manager) mediaMachines(remote []config.MediaRemote) (*media.Remote, error) {
	var o media.SFTPOptions
	for _, r := range remote {
		h := media.Host{Name: r.Host, Address: r.Address, Port: r.Port, User: r.User, Folders: r.Folders}
		var err error
		if h.Identity, err = hostpath.Expand(r.KeyFile, m.host.Home, m.host.Env); err != nil {
			return nil, err
		}
		if h.KnownHosts, err = hostpath.Expand(r.KnownHosts, m.host.Home, m.host.Env); err != nil {
			return nil, err
		}
		o.Hosts = append(o.Hosts, h)
	}
	return media.NewSFTP(o)
}
