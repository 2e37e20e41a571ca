package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A CodingAgent is the program of a coding agent, for one session.
type CodingAgent struct {
	Layer *config.SandboxSettings // see [config.Settings].Coding
	Who   config.Who
	Files map[string][]byte // settings files of its user, by the path below the home
}

// agentFlags are the flags of sandbox agent.
type agentFlags struct {
	*runFlags
	access text
	list   bool
}

// The values of --workspace-access of sandbox agent.
const (
	accessCopy     = string(sandbox.AccessNone)
	accessPrivate  = string(sandbox.AccessPrivate)
	accessReadOnly = string(sandbox.AccessRO)
	accessShared   = string(sandbox.AccessRW)
)

func (a *app) agentCommand() *ucli.Command {
	f := agentFlags{runFlags: newRunFlags("agent"), access: text{value: accessCopy, check: oneOf(accessCopy, accessPrivate, accessReadOnly, accessShared)}}
	return &ucli.Command{
		Name:      "agent",
		Usage:     "run the program of a coding agent in a sandbox",
		UsageText: "sandbox agent NAME [flags] [-- ARGUMENTS]\n" + "sandbox agent list",
		Description: "NAME is " + strings.Join(config.BuiltinAgents(), ", ") + ", or a profile of your own: the file agents/NAME.json beside the settings file. The\n" +
			"sandbox reaches the hosts of the profile and those of --allow-domain, and no other, whatever network.allowedDomains says. The key\n" +
			"of the API is taken from our variable; the program sees a placeholder, which the egress proxy replaces in requests to the\n" +
			"API. Its image gets a layer with the program once, which takes minutes.\n" +
			"\n" +
			"--workspace is the project, the current folder without. With --workspace-access none, which is the default, the program works on\n" +
			"a copy that is made once for the session; a line at the end says how to fetch what it changed. With private it works on a\n" +
			"copy-on-write view, so the folder stays as it is. With ro it begins in /agent, which is the folder read-only, and writes to\n" +
			"a workspace of its own. With rw it works in the folder itself. The session is one of the project unless --session names another, so the next call goes on in the same sandbox.\n" +
			"\n" +
			"Settings files of the profile below your home are shown read-only; links and files that look as if they hold a credential are left\n" +
			"out and named. Standard input is passed on; where it and standard output are terminals the program has a terminal. No time limit\n" +
			"holds but --timeout. The exit status and signals are those of sandbox run.",
		Flags: append([]ucli.Flag{
			&ucli.GenericFlag{Name: "workspace", Usage: "`FOLDER` of the project; the current one without", Value: &f.workspace},
			&ucli.GenericFlag{Name: "workspace-access", Usage: "`none`, a copy of the project; private, a view of it that stays apart; ro, the folder read-only; or rw, the folder itself", Value: &f.access},
			&ucli.GenericFlag{Name: "image", Usage: "`IMAGE` of the sandbox, in place of that of the profile", Value: &f.image},
			&ucli.GenericFlag{Name: "e", Usage: "set `NAME=VALUE` in the program's environment; NAME alone takes it from ours", Value: &f.env},
			&ucli.GenericFlag{Name: "timeout", Usage: "end the program after this `DURATION`, such as 90s, 10m or 1d", Value: &f.timeout},
			&ucli.BoolFlag{Name: "list", Usage: "list the profiles, as sandbox agent list does", Destination: &f.list},
		}, f.hostFlags.flags()...),
		Action: func(c *ucli.Context) error { return a.agent(c, f) },
	}
}

func (a *app) agent(c *ucli.Context, f agentFlags) error {
	args := c.Args().Slice()
	switch {
	case f.list && len(args) == 0, len(args) == 1 && args[0] == "list":
		return a.listAgents()
	case len(args) == 0:
		return usagef("agent", "which agent? write: sandbox agent NAME -- ARGUMENTS; sandbox agent list shows them")
	}
	project, err := projectFolder(f.workspace.value)
	if err != nil {
		return err
	}
	profile, err := a.agentProfile(args[0], project)
	if err != nil {
		return err
	}
	who := a.globals.who()
	if !a.globals.session.given {
		who.Session = agentSession(profile.Name, project, f.access.value)
	}
	o, layer, err := a.agentOptions(f, profile, who, project)
	if err != nil {
		return err
	}
	req := manager.Request{
		Who: who, Flags: layer, Timeout: f.timeout.value,
		Command: sandbox.Command{Args: slices.Concat(profile.Command, args[1:]), Env: f.environment(os.LookupEnv), Dir: f.dir.value, Grace: grace},
	}
	for name, value := range profile.Env {
		if _, given := req.Command.Env[name]; !given {
			req.Command.Env[name] = value
		}
	}
	if err := checkAgentEnv(req.Command.Env, o.Coding.Layer); err != nil {
		return err
	}
	if f.access.value == accessReadOnly && req.Command.Dir == "" {
		req.Command.Dir = sandbox.AgentDir
	}
	f.stdin, f.tty = true, isTerminal(a.Stdin) && isTerminal(a.Stdout)
	if f.tty {
		term, _ := os.LookupEnv("TERM")
		req.Command.Env["TERM"] = terminalType(term)
	}
	prepare := func(m Manager) error { return a.prepareAgent(c.Context, m, f, req, project, len(o.Coding.Files) > 0) }
	err = a.startWith(c.Context, o, f.runFlags, req, Manager.Run, prepare)
	if f.access.value == accessCopy && (err == nil || isStatus(err)) {
		a.say("%s worked on a copy of %s; fetch what is there now with: sandbox --session %s cp sandbox:/workspace/. FOLDER", profile.Name, termsafe.Line(project), who.Session)
	}
	return err
}

// isStatus reports whether err is the exit status of a command.
func isStatus(err error) bool {
	var status silentStatus
	return errors.As(err, &status)
}

// checkAgentEnv refuses a flag that gives the program a value for the variable of
// a key, which would be the key itself more often than not.
func checkAgentEnv(env map[string]string, layer *config.SandboxSettings) error {
	for name := range layer.Network.Secrets {
		if _, given := env[name]; given {
			return usagef("agent", "-e %s: the variable of a key holds a placeholder inside; leave it out, and set it for sandbox itself", name)
		}
	}
	return nil
}

// projectFolder returns the folder of the project, canonical.
func projectFolder(named string) (string, error) {
	bad := func(resource, message, hint string, err error) (string, error) {
		return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: "agent", Field: "workspace", Resource: resource, Message: message, Hint: hint, Err: err}
	}
	dir := named
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = hostpath.Canonical(abs)
	}
	if err != nil {
		return bad(dir, "the folder of the project cannot be found", "name another with --workspace", err)
	}
	fi, err := os.Stat(abs)
	switch {
	case err != nil:
		return bad(abs, "the folder of the project cannot be used", "name another with --workspace", err)
	case !fi.IsDir():
		return bad(abs, "the project is no folder", "name its folder with --workspace", nil)
	}
	if home, err := os.UserHomeDir(); err == nil {
		if home, err = hostpath.Canonical(home); err == nil && hostpath.Within(home, abs) {
			return bad(abs, "the folder contains a whole home, with the credentials in it", "go to the folder of a project, or name one with --workspace", nil)
		}
	}
	return abs, nil
}

// agentSession is the session of a project with an agent.
func agentSession(name, project, access string) string {
	sum := sha256.Sum256([]byte(project + "\x00" + access))
	return "agent-" + name + "-" + hex.EncodeToString(sum[:4])
}

// agentOptions returns the options of the backend for the agent, and the flags of
// this call as settings.
func (a *app) agentOptions(f agentFlags, profile config.AgentProfile, who config.Who, project string) (Options, *config.SandboxSettings, error) {
	o := a.options()
	place := placeFlags{image: f.image}
	if f.access.value != accessCopy {
		place.workspace, place.access = text{value: project, given: true}, sandbox.Access(f.access.value)
	}
	f.placeFlags = place
	flags, err := f.layer(a.globals)
	if err != nil {
		return o, nil, err
	}
	settings, err := a.Backend.Settings(o)
	if err != nil {
		return o, nil, err
	}
	base, err := config.Resolve(settings, who, flags)
	if err != nil {
		return o, nil, err
	}
	layer, err := profile.Layer(base, func(name string) bool { return os.Getenv(name) != "" })
	if err != nil {
		return o, nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return o, nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "agent", Message: "no home folder is known", Hint: "set HOME", Err: err}
	}
	files, left, err := agentFiles(home, profile.Settings)
	if err != nil {
		return o, nil, err
	}
	for _, l := range left {
		a.say("agent: left out: %s: %s", termsafe.Line(l.Path), l.Reason)
	}
	o.Coding = &CodingAgent{Layer: layer, Who: who, Files: files}
	return o, flags, nil
}

// prepareAgent puts the copy of the project into the sandbox and links the
// settings files into its home.
func (a *app) prepareAgent(ctx context.Context, m Manager, f agentFlags, req manager.Request, project string, linked bool) error {
	if f.access.value == accessCopy {
		share := manager.Request{Who: req.Who, Flags: req.Flags, Changes: true}
		err := m.Files(ctx, share, func(s manager.Share) error {
			there, err := s.ReadDir(ctx, sandbox.WorkspaceDir)
			if err != nil || !wantsCopy(there) {
				return operation("agent", err)
			}
			return operation("agent", a.copyProject(ctx, s, project))
		})
		if err != nil {
			return err
		}
	}
	if !linked {
		return nil
	}
	out, err := m.Run(ctx, manager.Request{Who: req.Who, Flags: req.Flags, Command: sandbox.Command{
		Args: []string{"cp", "-rsf", sandbox.SettingsDir + "/.", sandbox.HomeDir + "/"}, Dir: "/", Stderr: a.Stderr, Grace: grace,
	}})
	if err == nil && out.Exit.Code != 0 {
		err = &sandbox.Error{Code: sandbox.CodeExecution, Op: "agent", Resource: out.Name, Message: fmt.Sprintf("the settings files could not be put into the home: cp ended with status %d", out.Exit.Code)}
	}
	return err
}

// workspaceSeeds are what a scratch workspace begins with by itself.
var workspaceSeeds = []string{"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md", "skills", "lost+found"}

// copyMark is in the workspace while the project is copied. Where it is left, the
// copy was broken off.
const copyMark = ".sandbox-agent-copy"

// wantsCopy reports whether the project is to be copied to a workspace that holds
// there: it holds nothing of its own, or a copy that was broken off.
func wantsCopy(there []fs.DirEntry) bool {
	return slices.ContainsFunc(there, func(e fs.DirEntry) bool { return e.Name() == copyMark }) ||
		!slices.ContainsFunc(there, func(e fs.DirEntry) bool { return !slices.Contains(workspaceSeeds, e.Name()) })
}

// copyProject copies the content of the project into the workspace. What is left
// out is named, but for what lies in a folder that is.
func (a *app) copyProject(ctx context.Context, s manager.Share, project string) error {
	mark := sandbox.WorkspaceDir + "/" + copyMark
	if err := s.Write(ctx, mark, strings.NewReader(project+"\n"), sandbox.WriteOptions{}); err != nil {
		return err
	}
	from, err := onHost(operand{path: project + "/.", text: project}, s.Exposed)
	if err != nil {
		return err
	}
	defer from.close()
	var tally copy.Tally
	if err := copy.Copy(ctx, copy.Source{Files: from.files, Path: from.path}, copy.Target{Files: s, Dir: sandbox.WorkspaceDir}, &tally); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, l := range tally.Left() {
		above := slices.ContainsFunc(ancestors(l.Path), func(p string) bool { return named[p] })
		if named[l.Path] = true; !above {
			a.say("agent: left out: %s: %s", termsafe.Line(l.Path), termsafe.Line(l.Reason))
		}
	}
	return s.Remove(ctx, mark, false)
}

// ancestors are the folders above a path.
func ancestors(p string) (out []string) {
	for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p, '/') {
		p = p[:i]
		out = append(out, p)
	}
	return out
}

// Bounds of the settings files that are shown to an agent.
const (
	maxAgentFile  = 1 << 20
	maxAgentFiles = 500
	maxAgentBytes = 16 << 20
)

// agentFiles reads the settings files that a profile names below home. No link is
// followed; what is no regular file, too large, or looks as if it held a
// credential is left out.
func agentFiles(home string, names []string) (files map[string][]byte, left []copy.Left, err error) {
	// The home itself may be reached through links, which are the user's.
	home, err = hostpath.Canonical(home)
	if err != nil {
		return nil, nil, err
	}
	r := agentReader{home: home, files: map[string][]byte{}}
	for _, name := range names {
		r.add(strings.TrimSuffix(name, "/"), strings.HasSuffix(name, "/"), 0)
	}
	return r.files, r.left, nil
}

// An agentReader collects settings files.
type agentReader struct {
	home  string
	files map[string][]byte
	left  []copy.Left
	bytes int
}

func (r *agentReader) leave(name, reason string) {
	r.left = append(r.left, copy.Left{Path: "~/" + name, Reason: reason})
}

// add reads name, which may be missing; folder says that it must be one.
func (r *agentReader) add(name string, folder bool, depth int) {
	full := filepath.Join(r.home, name)
	fi, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		r.leave(name, "it cannot be looked at")
	case fi.Mode()&fs.ModeSymlink != 0:
		r.leave(name, "it is a link, which is not followed")
	case config.CredentialFile(name):
		r.leave(name, "files of this name hold credentials")
	case fi.IsDir() != folder && depth == 0:
		r.leave(name, "the profile names a file where a folder is, or the other way round")
	case fi.IsDir():
		r.folder(name, depth)
	default:
		r.file(name, full)
	}
}

func (r *agentReader) folder(name string, depth int) {
	if depth > 8 {
		r.leave(name, "it lies too deep")
		return
	}
	// What is read of it is opened without following a link, whatever takes the
	// place of the folder meanwhile.
	entries, err := os.ReadDir(filepath.Join(r.home, name))
	if err != nil {
		r.leave(name, "it cannot be read")
		return
	}
	for _, e := range entries {
		r.add(name+"/"+e.Name(), e.IsDir(), depth+1)
	}
}

func (r *agentReader) file(name, full string) {
	if len(r.files) >= maxAgentFiles {
		r.leave(name, "there are too many files")
		return
	}
	data, err := hostpath.File(full, maxAgentFile)
	switch {
	case err != nil:
		r.leave(name, "it is no regular file of at most 1 MiB that can be read without following a link")
	case r.bytes+len(data) > maxAgentBytes:
		r.leave(name, "the files are too large together")
	case config.LooksSecret(string(data)):
		r.leave(name, "it looks as if it held a credential; keep that in a variable")
	default:
		r.files[name] = data
		r.bytes += len(data)
	}
}

// agentProfile returns the profile called name: the user's own, else a built-in
// one.
func (a *app) agentProfile(name, project string) (config.AgentProfile, error) {
	if err := config.CheckAgentName(name); err != nil {
		return config.AgentProfile{}, err
	}
	p, err := a.ownAgent(name, project)
	if err == nil || !sandbox.IsNotFound(err) {
		return p, err
	}
	if p, ok := config.BuiltinAgent(name); ok {
		return p, nil
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		e.Hint = "built in are " + strings.Join(config.BuiltinAgents(), ", ") + "; a profile of your own is the file " + e.Resource
	}
	return p, err
}

// agentsFolder is where the user's own profiles lie: beside the settings file.
func (a *app) agentsFolder() (string, error) {
	settings, err := config.SettingsPath(a.globals.config.value)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(settings), "agents"), nil
}

// ownAgent reads a profile of the user. project is the folder that the agent is to
// work in, or empty: what lies in it could be written by an agent, so no profile
// is read from there.
func (a *app) ownAgent(name, project string) (config.AgentProfile, error) {
	folder, err := a.agentsFolder()
	if err != nil {
		return config.AgentProfile{}, err
	}
	file := filepath.Join(folder, name+".json")
	file, data, err := config.ReadAgentProfile(file)
	if err != nil {
		return config.AgentProfile{}, err
	}
	if project != "" && hostpath.Within(file, project) {
		return config.AgentProfile{}, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "read agent profile", Field: "workspace", Resource: file,
			Message: "the profile lies in the project, where an agent could change it", Hint: "keep the settings file and the folder agents elsewhere",
		}
	}
	return config.ParseAgentProfile(name, file, data)
}

// An agentView is one profile as lists show it.
type agentView struct {
	Name    string `json:"name"`
	Source  string `json:"source"`            // "built in", or the file
	Problem string `json:"problem,omitempty"` // why it cannot be used
	config.AgentProfile
}

func (a *app) listAgents() error {
	folder, err := a.agentsFolder()
	if err != nil {
		return err
	}
	names := config.BuiltinAgents()
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list agents", Resource: folder, Message: "the folder of profiles cannot be read", Err: err}
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	views, broken := []agentView{}, false
	for _, name := range names {
		v := agentView{Name: name, Source: "built in"}
		p, err := a.ownAgent(name, "")
		switch {
		case err == nil:
			v.AgentProfile, v.Source = p, filepath.Join(folder, name+".json")
		case sandbox.IsNotFound(err):
			v.AgentProfile, _ = config.BuiltinAgent(name)
		default:
			v.Problem, v.Source, broken = err.Error(), filepath.Join(folder, name+".json"), true
		}
		views = append(views, v)
	}
	if a.globals.json() {
		err = writeJSON(a.Stdout, struct {
			Agents []agentView `json:"agents"`
		}{views})
	} else {
		t := a.newTable([]string{"NAME", "HOSTS", "KEYS", "PROFILE"})
		for _, v := range views {
			keys := []string{}
			for _, k := range v.Keys {
				keys = append(keys, k.Variable)
			}
			where := v.Source
			if v.Problem != "" {
				where += ": " + v.Problem
			}
			t.add(termsafe.Line(v.Name), termsafe.Line(strings.Join(v.Hosts, " ")), termsafe.Line(strings.Join(keys, " ")), termsafe.Line(where))
		}
		err = t.write(a.Stdout)
	}
	if err == nil && broken {
		return silentStatus(statusFailed)
	}
	return err
}
