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
	"github.com/bulkhead-dev/sandbox/workspace"
)

// mediaFrom is where files may be staged from: folders of this machine, and
// other machines. Either may be nil.
type mediaFrom struct {
	folders *workspace.Folders
	remote  *workspace.Remote
}

var _ workspace.Source = mediaFrom{}

// Open implements [media.Source].
func (f mediaFrom) Open(ctx context.Context, ref string) (io.ReadCloser, workspace.Info, error) {
	rest, remote := strings.CutPrefix(ref, remoteScheme)
	host, path, ok := strings.Cut(rest, "/")
	switch {
	case !remote && f.folders != nil:
		return f.folders.Open(ctx, ref)
	case remote && f.remote != nil && ok && !strings.Contains(host, ":"):
		return f.remote.Open(ctx, host+":/"+path)
	case remote && (!ok || strings.Contains(host, ":")):
		return nil, workspace.Info{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: opStage, Field: "ref", Message: "a file of another machine is written " + remoteScheme + "HOST/PATH, without user and port"}
	}
	return nil, workspace.Info{}, &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: opStage, Resource: ref, Message: "nothing may be staged from there for this tenant",
		Hint: "who runs the server names folders and machines in media of the settings",
	}
}

// mediaSource returns the source that files may be staged from. It treats a
// missing folder as empty. It leaves out a folder that a sandbox could have
// exchanged and logs that, because callers do not learn of folders of the host.
func (st *stager) mediaSource(settings *config.Settings, from config.Media) (mediaFrom, error) {
	var src mediaFrom
	var folders []string
	for _, written := range from.Folders {
		folder, err := st.mediaFolder(settings, written)
		switch {
		case err == nil:
			folders = append(folders, folder)
		case errors.Is(err, fs.ErrNotExist):
			st.m.log.WithField("folder", written).Debug("there is no such media folder")
		default:
			st.m.log.WithError(err).WithField("folder", written).Warn("nothing is staged from this media folder")
		}
	}
	var err error
	if len(folders) > 0 {
		src.folders, err = workspace.NewFolders(folders...)
	}
	if err == nil && len(from.Remote) > 0 {
		src.remote, err = st.mediaMachines(from.Remote)
	}
	if err != nil {
		st.m.log.WithError(err).Error("the media settings cannot be used as they are")
		return src, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opStage, Message: "media cannot be staged now", Hint: "the log of the server says why"}
	}
	return src, nil
}

// mediaFolder makes a folder of the settings one that files may be taken from:
// absolute, there, and where no sandbox can write.
func (st *stager) mediaFolder(settings *config.Settings, written string) (string, error) {
	dir, err := hostpath.Expand(written, st.m.host.Home, st.m.host.Env)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); err != nil {
		return "", err
	} else if !st.IsDir() {
		return "", fmt.Errorf("%q is no folder", dir)
	}
	exposed, err := st.inSandboxes(settings)
	if err != nil {
		return "", err
	}
	listening, err := st.m.describer.listening()
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
		Canonical: hostpath.Canonical, Via: via, Sensitive: st.m.host.Sensitive, Listening: listening, Home: st.m.host.Home, Exposed: exposed,
	}, hardening.Switches{})
}

// inSandboxes are the folders that some sandbox can write, canonical: its own
// workspaces and what the settings open.
func (st *stager) inSandboxes(settings *config.Settings) ([]string, error) {
	out, err := st.m.describer.exposed()
	if err != nil {
		return nil, err
	}
	roots, err := st.workspaceRoots(settings)
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
func (st *stager) workspaceRoots(settings *config.Settings) ([]string, error) {
	out := []string{st.m.state.Workspaces()}
	for _, root := range config.WorkspaceRoots(settings) {
		dir, err := hostpath.Expand(root, st.m.host.Home, st.m.host.Env)
		if err != nil {
			return nil, err
		}
		out = append(out, dir)
	}
	return out, nil
}

// mediaMachines returns the source of files on other machines.
func (st *stager) mediaMachines(remote []config.MediaRemote) (*workspace.Remote, error) {
	var o workspace.SFTPOptions
	for _, r := range remote {
		h := workspace.Host{Name: r.Host, Address: r.Address, Port: r.Port, User: r.User, Folders: r.Folders}
		var err error
		if h.Identity, err = hostpath.Expand(r.KeyFile, st.m.host.Home, st.m.host.Env); err != nil {
			return nil, err
		}
		if h.KnownHosts, err = hostpath.Expand(r.KnownHosts, st.m.host.Home, st.m.host.Env); err != nil {
			return nil, err
		}
		o.Hosts = append(o.Hosts, h)
	}
	return workspace.NewSFTP(o)
}
