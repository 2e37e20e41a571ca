package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// shotCommand is what errors of browser screenshot are about.
const shotCommand = "browser screenshot"

// shotFlags are the flags of one browser screenshot.
type shotFlags struct {
	*browserFlags
	output, selector text
	width, height    int
	full             bool
}

func (a *app) browserScreenshotCommand() *ucli.Command {
	f := &shotFlags{browserFlags: newBrowserFlags(), output: text{check: notEmpty}, selector: text{check: notEmpty}}
	return &ucli.Command{
		Name:      "screenshot",
		Usage:     "open a page in a clean profile and take a picture of it",
		UsageText: "sandbox browser screenshot [flags] (URL | FILE) -o PICTURE",
		Description: "FILE is one of the workspace, and needs no network: a relative path, one below /workspace, or the path of the\n" +
			"host folder that is the workspace. PICTURE is a .png or .jpg file of this host, or - for standard output. It is\n" +
			"written whole or not at all. Here -o names it, and --format json is written out.",
		Flags: append([]ucli.Flag{
			&ucli.GenericFlag{Name: "output", Aliases: []string{"o"}, Usage: "`PICTURE` to write; .png or .jpg, or - for standard output, as PNG", Value: &f.output},
			&ucli.BoolFlag{Name: "full", Usage: "the whole page, not only what fits into the window", Destination: &f.full},
			&ucli.GenericFlag{Name: "selector", Usage: "only the first element that matches the CSS `SELECTOR`", Value: &f.selector},
			&ucli.IntFlag{Name: "width", Usage: "of the window, in `PIXELS`", DefaultText: "1280", Destination: &f.width},
			&ucli.IntFlag{Name: "height", Usage: "of the window, in `PIXELS`", DefaultText: "800", Destination: &f.height},
		}, f.flags()...),
		Action: func(c *ucli.Context) error {
			shot, err := a.shot(f, c.Args().Slice())
			if err != nil {
				return err
			}
			r, err := f.request(a.globals)
			if err != nil {
				return err
			}
			return a.atDisplay(func(d BrowserDisplay) error {
				return a.screenshot(c.Context, d, r, c.Args().First(), shot, f.output.value)
			})
		},
	}
}

// shot reads the flags, before anything is done.
func (a *app) shot(f *shotFlags, args []string) (browser.Shot, error) {
	s := browser.Shot{Full: f.full, Selector: f.selector.value, Width: f.width, Height: f.height}
	const most = 1 << 14
	switch {
	case len(args) != 1 || args[0] == "":
		return s, usagef(shotCommand, "exactly one URL or file is needed, and there are %d", len(args))
	case f.full && f.selector.given:
		return s, usagef(shotCommand, "--full and --selector exclude each other")
	case f.width < 0 || f.width > most || f.height < 0 || f.height > most:
		return s, usagef(shotCommand, "a window is from 1 to %d pixels wide and high", most)
	case !f.output.given:
		return s, usagef(shotCommand, "where to? name the picture: -o page.png")
	case f.output.value == "-" && a.globals.json():
		return s, usagef(shotCommand, "the picture and JSON cannot both go to standard output; name a file")
	case f.output.value == "-" && isTerminal(a.Stdout):
		return s, usagef(shotCommand, "standard output is a terminal; name a file: -o page.png")
	case f.output.value == "-":
		return s, nil
	}
	switch strings.ToLower(filepath.Ext(f.output.value)) {
	case ".png":
	case ".jpg", ".jpeg":
		s.JPEG = 90
	default:
		return s, usagef(shotCommand, "%q is neither a .png nor a .jpg file; JSON is written with --format json", f.output.value)
	}
	return s, nil
}

// shotView is what browser screenshot prints.
type shotView struct {
	File   string `json:"file"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Bytes  int    `json:"bytes"`
	URL    string `json:"url"`
	Status int64  `json:"status"`
	Title  string `json:"title"`
}

// screenshot takes one picture in a session of its own. Whether it can be
// written there is found out before a page is opened.
func (a *app) screenshot(ctx context.Context, d BrowserDisplay, r display.Request, target string, shot browser.Shot, output string) error {
	dirs, err := d.Folders(ctx, r)
	if err != nil {
		return err
	}
	if target, err = shotTarget(target, dirs.Workspace); err != nil {
		return err
	}
	if output == "-" {
		_, data, err := takeShot(ctx, d, r, target, shot)
		if err != nil {
			return err
		}
		_, err = lostOutput{a.Stdout}.Write(data)
		return err
	}
	to, err := openShot(output, dirs)
	if err != nil {
		return err
	}
	defer to.close()
	v, data, err := takeShot(ctx, d, r, target, shot)
	if err != nil {
		return err
	}
	if err := to.files.Write(ctx, to.name, bytes.NewReader(data), sandbox.WriteOptions{Perm: 0o644}); err != nil {
		return notWritten(err, output, "")
	}
	if v.File, err = filepath.Abs(output); err != nil {
		return err
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, v)
	}
	_, err = a.Stdout.WriteString(shotText(v, output))
	return err
}

// takeShot has a picture taken.
func takeShot(ctx context.Context, d BrowserDisplay, r display.Request, target string, shot browser.Shot) (v shotView, data []byte, err error) {
	page, picture, err := d.Shoot(ctx, r, target, shot)
	if err != nil {
		return v, nil, err
	}
	return shotView{
		Width: picture.Width, Height: picture.Height, Bytes: len(picture.Data), URL: page.URL, Status: page.Status, Title: page.Title,
	}, picture.Data, nil
}

func shotText(v shotView, output string) string {
	status := ""
	if v.Status != 0 {
		status = fmt.Sprintf(" (%d)", v.Status)
	}
	text := fmt.Sprintf("%s: %d×%d pixels, %s, of %s%s", output, v.Width, v.Height, bytesOf(int64(v.Bytes)), v.URL, status)
	if v.Title != "" {
		text += ": " + v.Title
	}
	return termsafe.Line(text) + "\n"
}

// shotTarget is what the browser is asked to open. An absolute path below the
// folder that is the workspace becomes one of the workspace; what lies between
// is not followed here, since code inside could have changed it.
func shotTarget(target, workspace string) (string, error) {
	if !filepath.IsAbs(target) || hostpath.Within(target, sandbox.WorkspaceDir) {
		return target, nil
	}
	if workspace == "" {
		return "", &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: shotCommand, Resource: termsafe.Line(target),
			Message: "the daemon's workspace has no path of this machine",
			Hint:    "name a file by its path inside, relative or below " + sandbox.WorkspaceDir + "; a page of the net is written with http:// or https://",
		}
	}
	root, err := os.Stat(workspace)
	if err != nil {
		return "", sandbox.Errorf(sandbox.CodeUnavailable, shotCommand, "the workspace cannot be opened: %w", err)
	}
	clean := filepath.Clean(target)
	for end := 1; end < len(clean); end++ { // the outermost folder first: it is the caller's, and no link of the workspace
		if clean[end] != '/' {
			continue
		}
		if fi, err := os.Stat(clean[:end]); err == nil && os.SameFile(fi, root) {
			return sandbox.WorkspaceDir + clean[end:], nil
		}
	}
	return "", &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: shotCommand, Resource: termsafe.Line(target),
		Message: target + " is not in the workspace, which is " + workspace,
		Hint:    "copy it there, or name its folder with --workspace; a page of the net is written with http:// or https://",
	}
}

// openShot opens the folder in which the picture will lie. It is never reached
// through a link that code in a sandbox could have made.
func openShot(output string, dirs display.Folders) (end, error) {
	folder, name := filepath.Split(output)
	if folder == "" {
		folder = "."
	}
	exposed := dirs.Exposed
	if dirs.Workspace != "" {
		exposed = append([]string{dirs.Workspace}, exposed...)
	}
	root, err := openFolder(folder, exposed)
	if err != nil {
		return end{}, notWritten(err, output, "name an existing folder, without links that lie in a workspace")
	}
	return end{files: fsbridge.NewHostFiles(root, folder), name: name, close: func() { root.Close() }}, nil
}

// notWritten says of err what it means here.
func notWritten(err error, output, hint string) error {
	e := &sandbox.Error{Code: sandbox.CodeOf(err), Op: shotCommand, Resource: termsafe.Line(output), Message: "the picture cannot be written", Err: err, Hint: hint}
	var known *sandbox.Error
	if errors.As(err, &known) {
		e.Message, e.Err = "the picture cannot be written: "+known.Message, known.Err
	}
	return e
}
