package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func (a *app) configCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "config",
		Usage:     "show the settings or their schema, or read those of another program",
		UsageText: "sandbox config (schema | show | import) [flags]",
		Subcommands: []*ucli.Command{
			{
				Name:      "schema",
				Usage:     "print the JSON Schema of the settings file",
				UsageText: "sandbox config schema",
				Action: func(c *ucli.Context) error {
					if err := noArguments(c); err != nil {
						return err
					}
					_, err := a.Stdout.Write(append(config.Schema(), '\n'))
					return err
				},
			},
			a.configShowCommand(),
			a.configImportCommand(),
		},
	}
}

func (a *app) configShowCommand() *ucli.Command {
	var origins, values bool
	return &ucli.Command{
		Name:        "show",
		Usage:       "print the effective settings of --agent and --session as JSON",
		UsageText:   "sandbox config show [flags]",
		Description: "Values of variables that the settings set are masked unless --show-env is given.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "origins", Usage: "add the layer that each value came from", Destination: &origins},
			&ucli.BoolFlag{Name: "show-env", Usage: "show the values of variables", Destination: &values},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			s, err := a.Backend.Settings(a.options())
			if err != nil {
				return err
			}
			r, err := config.Resolve(s, a.globals.who(), a.globals.layer())
			if err != nil {
				return err
			}
			if !values {
				r = r.Redact()
			}
			return writeJSON(a.Stdout, settingsOf(r, origins))
		},
	}
}

func (a *app) configImportCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "import",
		Usage:     "print the settings file of another program in the present form",
		UsageText: "sandbox config import [FILE | -]",
		Description: "It reads {enabled, provider, policy}, {sandbox: {excludedCommands, …}} with {permissions}, agents with docker.setupCommand,\n" +
			"{mode, allowed_read_paths, …} and {limits, whitelists, …}; keys of the present form pass. Without FILE, or with -, it reads\n" +
			"standard input. It changes no file: write what it prints to the settings file, as in sandbox config import old.json > new.json.\n" +
			"\n" +
			"What is not taken over is printed on standard error with the key to use instead. With -o json the answer is an object:\n" +
			"settings, and keys with key, to, result (set, default, left, unknown) and note.\n" +
			"\n" +
			"0: every key was taken over. 1: some were not, or one has a value that it cannot have. 2: wrong usage.",
		Action: func(c *ucli.Context) error {
			const op = "config import"
			if c.Args().Len() > 1 {
				return usagef(op, "write: sandbox %s [FILE | -]", op)
			}
			name, data, err := a.readImport(c.Args().First())
			if err != nil {
				return operation(op, err)
			}
			got, err := config.Import(name, data)
			if err != nil {
				return operation(op, err)
			}
			if a.globals.json() {
				got.Keys = notNil(got.Keys)
				if err := writeJSON(a.Stdout, got); err != nil || got.Complete() {
					return err
				}
				return silentStatus(statusFailed)
			}
			if err := writeJSON(a.Stdout, got.Settings); err != nil {
				return err
			}
			for _, k := range got.Keys {
				if k.Result == config.ImportSet && k.Note == "" {
					continue
				}
				text := termsafe.Line(k.Key) + ": " + importWords()[k.Result]
				if k.To != "" {
					text += " (" + termsafe.Line(k.To) + ")"
				}
				a.say("%s: %s: %s", op, text, termsafe.Line(k.Note))
			}
			if !got.Complete() {
				return silentStatus(statusFailed)
			}
			return nil
		},
	}
}

// importWords say what became of a key.
func importWords() map[string]string {
	return map[string]string{
		config.ImportSet: "taken over", config.ImportDefault: "not set, as the default holds",
		config.ImportLeft: "not taken over", config.ImportUnknown: "unknown, and not taken over",
	}
}

// maxImport is more than any settings file may have.
const maxImport = 2 << 20

// readImport reads the file to import, and returns its absolute name: rules in it may
// name files beside it.
func (a *app) readImport(file string) (name string, data []byte, err error) {
	failed := func(err error) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "import settings", Field: "FILE", Resource: name, Message: "it cannot be read", Err: err}
	}
	var in io.Reader
	if file == "" || file == "-" {
		if isTerminal(a.Stdin) {
			return "", nil, usagef("config import", "standard input is a terminal; name a file, or give it one as in: sandbox config import < old.json")
		}
		name, in = "-", a.Stdin
	} else {
		if name, err = filepath.Abs(file); err != nil {
			return file, nil, failed(err)
		}
		f, err := os.Open(name)
		if err != nil {
			return name, nil, failed(err)
		}
		defer f.Close()
		if fi, err := f.Stat(); err != nil || fi.IsDir() {
			return name, nil, failed(errors.Join(err, errors.New("it is no file")))
		}
		in = f
	}
	if data, err = io.ReadAll(io.LimitReader(in, maxImport)); err != nil {
		return name, nil, failed(err)
	}
	return name, data, nil
}

// settingsView is what config show prints.
type settingsView struct {
	config.Who
	Sandboxed bool              `json:"sandboxed"`
	Reason    string            `json:"reason"`
	ScopeKey  string            `json:"scopeKey"`
	Sandbox   config.Values     `json:"sandbox"`
	NoEffect  []config.Notice   `json:"noEffect"`
	Origins   map[string]string `json:"origins,omitempty"`
}

func settingsOf(r config.Resolved, origins bool) settingsView {
	v := settingsView{Who: r.Who, Sandboxed: r.Sandboxed, Reason: r.Reason, ScopeKey: r.ScopeKey, Sandbox: r.Values, NoEffect: notNil(r.NoEffect)}
	if origins {
		v.Origins = r.Origins
	}
	return v
}
