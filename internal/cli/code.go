package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// codeDrain is how long kernels may take to end.
const codeDrain = 20 * time.Second

// codeFlags are the flags of sandbox code.
type codeFlags struct {
	*runFlags
	language, pictures text
	line               text
}

func (a *app) codeCommand() *ucli.Command {
	f := codeFlags{runFlags: newRunFlags("code"), language: text{check: codeLanguage}, pictures: text{check: notEmpty}}
	flags := append([]ucli.Flag{
		&ucli.GenericFlag{Name: "language", Aliases: []string{"l"}, Usage: "run `LANGUAGE`: python, javascript or bash", Value: &f.language},
		&ucli.GenericFlag{Name: "c", Usage: "run this `CODE` and nothing else", Value: &f.line},
		&ucli.GenericFlag{Name: "pictures", Usage: "write pictures into `FOLDER`, which is the current one without", Value: &f.pictures},
		&ucli.GenericFlag{Name: "e", Usage: "set `NAME=VALUE` for the code; NAME alone takes it from ours", Value: &f.env},
		&ucli.GenericFlag{Name: "timeout", Usage: "interrupt each run after this `DURATION`, such as 90s, 10m or 1d", Value: &f.timeout},
	}, f.hostFlags.flags()...)
	return &ucli.Command{
		Name:      "code",
		Usage:     "run Python, JavaScript or bash in a kernel of the session's sandbox",
		UsageText: "sandbox code [flags]\n" + "sandbox code [flags] -c CODE\n" + "sandbox code [flags] <FILE",
		Description: "On a terminal each line is run when Enter is pressed; lines that end with : or \\ or begin with a blank are\n" +
			"collected until an empty line. Variables stay until the command ends, which Ctrl-D does; Ctrl-C interrupts the code\n" +
			"and ends the command. When standard input is no terminal all of it is run at once. Pictures that the code shows are\n" +
			"written to files, whose names are said. The image must have a kernel host, as\n" +
			about.CodeImage + " has, which is made when it is first needed; that takes minutes: give --image or docker.image.\n" +
			"1: the code has failed. 124: it was interrupted at its time limit. 125: the sandbox failed.",
		Flags: append(flags, f.placeFlags.flags()...),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.code(c.Context, f)
		},
	}
}

func codeLanguage(s string) error {
	for _, l := range running.CodeLanguages() {
		if s == l {
			return nil
		}
	}
	return errors.New("it must be one of " + strings.Join(running.CodeLanguages(), ", "))
}

// withoutShells runs commands for the kernels of one program, which opens no
// shells.
type withoutShells struct{ Manager }

// OpenShell implements [running.Manager].
func (withoutShells) OpenShell(context.Context, manager.Request, sandbox.ShellOptions) (running.Shell, error) {
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open shell", Message: "sandbox code opens no shells"}
}

func (a *app) code(ctx context.Context, f codeFlags) error {
	req, err := a.request(f.runFlags)
	if err != nil {
		return err
	}
	run := running.Code{Language: f.language.value, Env: req.Command.Env, Timeout: f.timeout.value}
	req.Command, req.Timeout = sandbox.Command{}, 0
	folder := f.pictures.value
	if folder == "" {
		folder = "."
	}
	return a.useManager(a.options(), func(m Manager) (err error) {
		supervisor := running.New(running.Options{Manager: withoutShells{m}, Log: a.options().Log})
		defer func() {
			ctx, done := context.WithTimeout(context.WithoutCancel(ctx), codeDrain)
			defer done()
			if ended := supervisor.Close(ctx); err == nil {
				err = ended
			}
		}()
		one := func(text string) error {
			run := run
			run.Text = text
			return a.runCode(ctx, supervisor, req, run, folder)
		}
		switch {
		case f.line.given:
			return one(f.line.value)
		case isTerminal(a.Stdin):
			return a.cells(one)
		}
		text, err := io.ReadAll(io.LimitReader(a.Stdin, running.MaxCode+1))
		if err != nil {
			return fmt.Errorf("standard input cannot be read: %w", err)
		}
		return one(string(text))
	})
}

// cells reads cells from a terminal and runs them. Code that fails ends nothing.
func (a *app) cells(run func(string) error) error {
	in := bufio.NewReader(a.Stdin)
	var cell strings.Builder
	for {
		prompt := ">>> "
		if cell.Len() > 0 {
			prompt = "... "
		}
		if _, err := io.WriteString(a.Stderr, prompt); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		cell.WriteString(line)
		if text := strings.TrimRight(line, "\r\n"); err == nil && cellGoesOn(text, cell.Len() > len(line)) {
			continue
		}
		text := cell.String()
		cell.Reset()
		var status silentStatus
		if strings.TrimSpace(text) != "" {
			if failed := run(text); failed != nil && !errors.As(failed, &status) {
				return failed
			}
		}
		if err != nil {
			_, err = io.WriteString(a.Stderr, "\n")
			return err
		}
	}
}

// cellGoesOn reports whether a cell does not end with this line; within says that
// there were lines before it.
func cellGoesOn(line string, within bool) bool {
	if within {
		return strings.TrimSpace(line) != ""
	}
	end := strings.TrimRight(line, " \t")
	return strings.HasSuffix(end, ":") || strings.HasSuffix(end, "\\") || strings.HasSuffix(end, "{") || line != strings.TrimLeft(line, " \t") && end != ""
}

// runCode runs one cell and shows what it comes to.
func (a *app) runCode(ctx context.Context, supervisor *running.Supervisor, req manager.Request, code running.Code, folder string) error {
	failed := false
	out, err := supervisor.RunCode(ctx, req, code, func(e sandbox.CodeEvent) (err error) {
		switch e.Type {
		case sandbox.CodeEventStdout:
			_, err = io.WriteString(a.Stdout, e.Text)
		case sandbox.CodeEventStderr:
			_, err = io.WriteString(a.Stderr, e.Text)
		case sandbox.CodeEventResult:
			err = a.showCode(e.Result, folder)
		case sandbox.CodeEventError:
			failed = true
			text := e.Error.Traceback
			if text == "" {
				text = e.Error.Name + ": " + e.Error.Value
			}
			_, err = io.WriteString(a.Stderr, plainCode(text)+"\n")
		case sandbox.CodeEventTruncated:
			a.say(fmt.Sprintf("%d characters of the output are left out", e.Dropped))
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case out.TimedOut:
		a.say("the code was interrupted at its time limit")
		return silentStatus(statusTimedOut)
	case failed:
		return silentStatus(1)
	}
	return nil
}

// plainCode is text of the sandbox as a terminal may have it: without control
// characters, in its lines.
func plainCode(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !ok {
			break
		}
		at := strings.IndexFunc(after, func(r rune) bool { return r >= '@' && r <= '~' })
		if at < 0 {
			break
		}
		s = after[at+1:]
	}
	rows := strings.Split(b.String(), "\n")
	for i, row := range rows {
		rows[i] = termsafe.Line(row)
	}
	return strings.Join(rows, "\n")
}

// showCode writes a value: its pictures to files, and its text, which a picture
// takes the place of.
func (a *app) showCode(r *sandbox.CodeDisplay, folder string) error {
	shown := false
	for _, p := range []struct {
		suffix string
		data   []byte
	}{{"png", r.PNG}, {"jpeg", r.JPEG}, {"svg", []byte(r.SVG)}, {"pdf", r.PDF}} {
		if len(p.data) == 0 {
			continue
		}
		name, err := writePicture(folder, p.suffix, p.data)
		if err != nil {
			return err
		}
		shown = true
		if _, err := fmt.Fprintln(a.Stdout, "picture: "+termsafe.Line(name)); err != nil {
			return err
		}
	}
	text := r.Text
	if text == "" {
		text = r.Markdown + r.LaTeX
	}
	if shown || text == "" {
		return nil
	}
	_, err := io.WriteString(a.Stdout, plainCode(text)+"\n")
	return err
}

// writePicture writes a picture to a file that was not there before.
func writePicture(folder, suffix string, data []byte) (string, error) {
	for n := 1; n < 100_000; n++ {
		name := filepath.Join(folder, fmt.Sprintf("picture-%d.%s", n, suffix))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return "", &sandbox.Error{Code: sandbox.CodeExecution, Op: "code", Field: "--pictures", Resource: folder, Message: "a picture cannot be written", Hint: "give a folder that can be written to", Err: err}
		}
		return name, nil
	}
	return "", &sandbox.Error{Code: sandbox.CodeExecution, Op: "code", Field: "--pictures", Resource: folder, Message: "the folder has too many pictures"}
}
