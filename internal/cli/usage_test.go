package cli

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/manager"
)

func TestWrongUsage(t *testing.T) {
	tests := []struct {
		name string
		args string
		says string
	}{
		{"nothing", "", "COMMAND"},
		{"unknown command", "serf", `unknown command "serf"`},
		{"unknown global flag", "--nope list", "nope"},
		{"unknown flag", "list --nope", "nope"},
		{"unknown format", "list -o yaml", "one of table, json"},
		{"unknown format before", "-o yaml list", "one of table, json"},
		{"unknown provider", "list --provider docker2", "one of docker, local, landlock, kubernetes, auto"},
		{"unknown provider, and how to add one", "run --provider daytona -- true", "orchestrator.Options.Providers"},
		{"unknown provider before", "--provider daytona serve", "one of docker, local, landlock, kubernetes, auto"},
		{"unknown provider of a subcommand", "browser start --provider daytona", "one of docker, local, landlock, kubernetes, auto"},
		{"provider that settings cannot name", "list --provider host", "one of docker, local, landlock, kubernetes, auto"},
		{"malformed provider", "list --provider Docker", "one of docker, local, landlock, kubernetes, auto"},
		{"malformed provider of a daemon", "--host unix:/x list --provider ../x", "one of docker, local, landlock, kubernetes, auto"},
		{"empty provider", "list --provider=", "one of docker, local, landlock, kubernetes, auto"},
		{"unknown log level", "--log-level loud list", "loud"},
		{"empty agent", "--agent= list", "empty"},
		{"argument of list", "list x", `takes no arguments, but there is "x"`},
		{"run without command", "run", "which command"},
		{"run with an empty rest", "run --rm --", "which command"},
		{"bad timeout", "run --timeout soon -- true", "soon"},
		{"negative timeout", "run --timeout -1s -- true", "-1s"},
		{"zero timeout", "run --timeout 0s -- true", "longer than nothing"},
		{"environment without name", "run -e =x -- true", "NAME=VALUE"},
		{"environment with a name of two", "run -e A\u202eB=x -- true", "no name of a variable"},
		{"shell with a name of two in its environment", "shell -e A\u202eB=x", "no name of a variable"},
		{"check with a name of two in the environment", "check -e A\u202eB -- true", "no name of a variable"},
		{"relative workdir", "run -w sub -- true", "absolute"},
		{"terminal from a file", "run -t -- true", "needs a terminal"},
		{"combined terminal flags", "run -it -- true", "needs a terminal"},
		{"combined with an unknown one", "run -iz -- true", "iz"},
		{"exec has no rm", "exec --rm -- true", "rm"},
		{"recreate without selector", "recreate --force", "there are 0"},
		{"recreate with two", "recreate --session a --all --force", "there are 2"},
		{"recreate with three", "recreate --session a --agent b --all --force", "there are 3"},
		{"recreate cannot ask", "recreate --all", "--force"},
		{"checkpoint alone", "checkpoint", "needs a further word"},
		{"checkpoint with an unknown word", "checkpoint make", `unknown command "make"`},
		{"checkpoint create with an argument", "checkpoint create x", "takes no arguments"},
		{"checkpoint with an empty name", "checkpoint create --name=", "empty"},
		{"checkpoint list of all and of one session", "checkpoint list --all --session s", "exclude each other"},
		{"checkpoint show of two", "checkpoint show a b", "exactly one checkpoint"},
		{"checkpoint rm of none", "checkpoint rm", "at least one"},
		{"checkpoint export of none", "checkpoint export -o f", "exactly one checkpoint"},
		{"checkpoint import of two", "checkpoint import a b", "at most one file"},
		{"rollback to none", "rollback --force", "exactly one checkpoint"},
		{"rollback cannot ask", "rollback c", "--force"},
		{"no forks", "fork --count 0", "from 1 to 100"},
		{"too many forks", "fork --count 101", "from 1 to 100"},
		{"forks by number and by name", "fork --count 2 --to a", "exclude each other"},
		{"fork with an argument", "fork c", "takes no arguments"},
		{"run on the host from a checkpoint", "run --from c --dangerously-disable-sandbox -- true", "only a sandbox"},
		{"exec from a checkpoint", "exec --from c -- true", "from"},
		{"prune with a bad duration", "prune --idle 3weeks", "3weeks"},
		{"prune with a negative one", "prune --max-age -1h", "-1h"},
		{"images alone", "images", "needs a further word"},
		{"images with an unknown word", "images rm", `unknown command "rm"`},
		{"pull without image", "images pull", "exactly one image"},
		{"pull of two", "images pull a b", "exactly one image"},
		{"build with argument", "images build x", "takes no arguments"},
		{"violations alone", "violations", "needs a further word"},
		{"violations of an unknown type", "violations list --type nope", "one of heredoc_injection"},
		{"violations of an unknown severity", "violations list --severity bad", "one of low"},
		{"violations since a bad time", "violations list --since soon", "no time"},
		{"violations with a negative limit", "violations list --limit -1", "negative"},
		{"violations of one tenant and all", "violations list --all --tenant a", "exclude"},
		{"violations clear cannot ask", "violations clear", "--force"},
		{"violations clear has no limit", "violations clear --limit 3 --force", "limit"},
		{"evidence alone", "evidence", "needs a further word"},
		{"evidence of an operation and another type", "evidence list --type egress --status ok", "--status is about operations"},
		{"evidence of an unknown status", "evidence list --status good", "one of ok, denied"},
		{"replay of a type without a decision", "evidence replay --type begin", "one of operation, egress"},
		{"replay with argument", "evidence replay x", "takes no arguments"},
		{"evidence of an unknown type", "evidence list --type nope", "one of egress"},
		{"evidence since a bad time", "evidence list --since soon", "no time"},
		{"evidence with a negative limit", "evidence list --limit -1", "negative"},
		{"evidence of one tenant and all", "evidence list --all --tenant a", "exclude"},
		{"evidence of no sandbox", "evidence list --sandbox=", "empty"},
		{"evidence verify with argument", "evidence verify x", "takes no arguments"},
		{"evidence verify of one tenant and all", "evidence verify --all --tenant a", "exclude"},
		{"evidence verify of a line of nobody", "evidence verify --signed 7:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a", "needs --tenant"},
		{"evidence verify of no line", "evidence verify --tenant a --signed 7:abc", "64 hex digits"},
		{"evidence verify with no key", "evidence verify --key /nowhere", "neither a public key"},
		{"token alone", "token", "needs a further word"},
		{"token with an unknown word", "token show", `unknown command "show"`},
		{"token create with argument", "token create --tenant a x", "takes no arguments"},
		{"token for nobody", "token create", "name the --tenant"},
		{"token of an unknown role", "token create --role root", "one of admin, tenant, session"},
		{"token for no session", "token create --role session --tenant a", "name the --session"},
		{"token for a session of the wrong role", "token create --tenant a --session s", "--role session"},
		{"token of an admin of one tenant", "token create --role admin --tenant a", "neither --tenant"},
		{"token for no time", "token create --tenant a --expires 0s", "longer than nothing"},
		{"token for a time that is none", "token create --tenant a --expires soon", "soon"},
		{"token for a session for ever", "token create --role session --tenant a --session s --expires never", "has to end"},
		{"token with a bad quota", "token create --tenant a --quota sandboxes", "NAME=N"},
		{"token with an unknown quota", "token create --tenant a --quota x=1", "none of sandboxes"},
		{"token with a negative quota", "token create --tenant a --quota commands=-1", "not negative"},
		{"token with a quota of no processors", "token create --tenant a --quota cpus=NaN", "number of processors"},
		{"token list with argument", "token list x", "takes no arguments"},
		{"token revoke of nothing", "token revoke", "at least one"},
		{"port alone", "port", "needs a further word"},
		{"port with an unknown word", "port open", `unknown command "open"`},
		{"port forward of nothing", "port forward", "exactly one port"},
		{"port forward of two", "port forward 1 2", "exactly one port"},
		{"port forward of zero", "port forward 0", "from 1 to 65535"},
		{"port forward of too much", "port forward 65536", "from 1 to 65535"},
		{"port forward to zero inside", "port forward 80:0", "from 1 to 65535"},
		{"port forward from no number", "port forward x:80", "from 0 to 65535"},
		{"port forward with three parts", "port forward 127.0.0.1:80:80", "from 0 to 65535"},
		{"port forward with a sign", "port forward +80", "from 1 to 65535"},
		{"port forward with a zero in front", "port forward 080", "from 1 to 65535"},
		{"port forward at a name", "port forward --address localhost 80", "IP address"},
		{"port list with argument", "port list x", "takes no arguments"},
		{"port share of nothing", "port share", "exactly one port"},
		{"port share for too long", "port share 80 --for 31d", "at most 30d"},
		{"port share for no time", "port share 80 --for 0s", "longer than nothing"},
		{"port shares with argument", "port shares x", "takes no arguments"},
		{"port revoke of nothing", "port revoke", "at least one"},
		{"config alone", "config", "needs a further word"},
		{"completion alone", "completion", "exactly one"},
		{"completion of an unknown shell", "completion tcsh", "tcsh"},
		{"help of an unknown command", "help nope", "nope"},
		{"browser alone", "browser", "needs a further word"},
		{"browser with an unknown word", "browser close", `unknown command "close"`},
		{"browser start with argument", "browser start x", "takes no arguments"},
		{"browser start for a time without serving", "browser start --for 5m", "--for needs --serve"},
		{"browser start for no time", "browser start --serve --for 0s", "longer than nothing"},
		{"browser open with argument", "browser open x", "takes no arguments"},
		{"browser open has no serve", "browser open --serve", "serve"},
		{"browser stop with argument", "browser stop x", `"sandbox browser stop" takes no arguments`},
		{"browser list with argument", "browser list x", "takes no arguments"},
		{"screenshot of nothing", "browser screenshot -o x.png", "exactly one URL or file"},
		{"screenshot of two", "browser screenshot a.html b.html -o x.png", "there are 2"},
		{"screenshot to nowhere", "browser screenshot a.html", "name the picture"},
		{"screenshot to another kind of file", "browser screenshot a.html -o x.gif", "neither a .png nor a .jpg"},
		{"screenshot to a file called json", "browser screenshot a.html -o json", "--format json"},
		{"screenshot and JSON to standard output", "browser screenshot a.html -o - --format json", "cannot both"},
		{"screenshot of page and element", "browser screenshot a.html -o x.png --full --selector h1", "exclude each other"},
		{"screenshot in a negative window", "browser screenshot a.html -o x.png --width -1", "from 1 to"},
		{"screenshot in a huge window", "browser screenshot a.html -o x.png --height 100000", "from 1 to"},
		{"two forms of one flag", "list -o json --format json", "two forms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			r := call(t, f, strings.Fields(tt.args)...)
			if r.status != 2 || r.stdout != "" {
				t.Errorf("status %d and output %q, want 2 and none", r.status, r.stdout)
			}
			if !strings.Contains(r.stderr, tt.says) {
				t.Errorf("it says %q, want something with %q", r.stderr, tt.says)
			}
			if f.request.Command.Args != nil || f.options.Log != nil {
				t.Error("the backend was asked")
			}
		})
	}
}

// TestFlagsAreNamedAsTheyAreWritten holds messages about flags to the dashes
// that people write, and to our own words.
func TestFlagsAreNamedAsTheyAreWritten(t *testing.T) {
	for args, says := range map[string]string{
		"list --nope":                 "sandbox: there is no flag --nope\n",
		"list -z":                     "sandbox: there is no flag -z\n",
		"explain --path":              "sandbox: --path needs a value\n",
		"shell -c":                    "sandbox: -c needs a value\n",
		"run --timeout 5 -- true":     `sandbox: --timeout cannot be "5": "5" is no duration; write it like 90s, 10m, 24h or 7d` + "\n",
		"list --all=perhaps":          `sandbox: --all cannot be "perhaps": `,
		"-o yaml list":                `sandbox: -o cannot be "yaml": it must be one of table, json` + "\n",
		"list --log-level loud":       `sandbox: --log-level cannot be "loud": it must be one of error, warning, info, debug` + "\n",
		"list --tenant a --limit=1 x": "sandbox: there is no flag --limit\n",
	} {
		if r := call(t, &fake{}, strings.Fields(args)...); r.status != 2 || !strings.HasPrefix(r.stderr, says) {
			t.Errorf("%s: status %d, it says %q, want %q", args, r.status, r.stderr, says)
		}
	}
}

// TestHelpListsItself asks every command and what is below it for its help,
// which names that flag and gives every flag that takes a value a word for it.
func TestHelpListsItself(t *testing.T) {
	for _, args := range []string{
		"run", "exec", "shell", "fs", "fs read", "cp", "media", "media stage", "config import", "list", "recreate", "prune", "checkpoint", "checkpoint create", "checkpoint export", "rollback", "fork", "explain", "check", "stats", "pool", "violations", "violations list",
		"evidence", "evidence list", "token", "token create", "browser", "browser start", "browser open", "serve", "mcp", "images", "images build",
		"config", "config show", "doctor", "version", "completion",
	} {
		r := call(t, &fake{}, append(strings.Fields(args), "--help")...)
		if r.status != 0 || strings.Count(r.stdout, "--help, -h") != 1 {
			t.Errorf("%s: status %d, and --help is listed %d times", args, r.status, strings.Count(r.stdout, "--help, -h"))
		}
		for line := range strings.Lines(r.stdout) {
			if flag, _, _ := strings.Cut(strings.TrimSpace(line), "  "); strings.HasPrefix(flag, "-") && strings.Contains(flag, " value") {
				t.Errorf("%s: nothing is said of the value in %q", args, line)
			}
		}
	}
}

func TestHelpGoesToStandardOutput(t *testing.T) {
	for _, args := range []string{"--help", "-h", "help", "run --help", "help run", "images build -h"} {
		r := call(t, &fake{}, strings.Fields(args)...)
		if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "sandbox") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, r.status, r.stdout, r.stderr)
		}
	}
}

func TestGlobalFlagsStandBeforeAndAfter(t *testing.T) {
	tests := []struct {
		name, args             string
		tenant, agent, session string
	}{
		{"defaults", "run -- true", "", "main", "default"},
		{"before", "--tenant acme --agent a --session s run -- true", "acme", "a", "s"},
		{"after", "run --tenant acme --agent a --session s -- true", "acme", "a", "s"},
		{"with equal signs", "--tenant=acme run --agent=a --session=s -- true", "acme", "a", "s"},
		{"the last one counts", "--session a run --session b -- true", "", "main", "b"},
		{"one before and one after", "--session a run --agent b -- true", "", "b", "a"},
		{"not behind the command's name", "run true --session x", "", "main", "default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			if r := call(t, f, strings.Fields(tt.args)...); r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			who := f.request.Who
			if who.Tenant != tt.tenant || who.Agent != tt.agent || who.Session != tt.session {
				t.Errorf("for %+v, want %s/%s/%s", who, tt.tenant, tt.agent, tt.session)
			}
		})
	}
}

func TestBackendGetsTheFilesOfTheFlags(t *testing.T) {
	for _, args := range []string{"--config c.json --state-dir st list", "list --config c.json --state-dir st", "images list --config c.json --state-dir st"} {
		f := &fake{}
		if r := call(t, f, strings.Fields(args)...); r.status != 0 {
			t.Fatalf("%s: status %d: %s", args, r.status, r.stderr)
		}
		if f.options.ConfigFile != "c.json" || f.options.StateDir != "st" {
			t.Errorf("%s: got %q and %q", args, f.options.ConfigFile, f.options.StateDir)
		}
	}
}

func TestArgumentsAreTheCommandsOwn(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"dashes separate", []string{"run", "--", "ls", "-l"}, []string{"ls", "-l"}},
		{"without dashes", []string{"run", "ls", "-l"}, []string{"ls", "-l"}},
		{"a second pair of dashes stays", []string{"run", "--", "x", "--", "y"}, []string{"x", "--", "y"}},
		{"help is a program like others", []string{"run", "--", "help"}, []string{"help"}},
		{"so is its flag", []string{"run", "--", "--help"}, []string{"--help"}},
		{"and our own flags", []string{"run", "--", "session", "-o", "json"}, []string{"session", "-o", "json"}},
		{"completion is not triggered", []string{"run", "--", "x", "--generate-bash-completion"}, []string{"x", "--generate-bash-completion"}},
		{"empty words stay", []string{"run", "--", "x", "", " "}, []string{"x", "", " "}},
		{"combined flags there stay", []string{"exec", "--", "tar", "-xzf", "a,b"}, []string{"tar", "-xzf", "a,b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			if r := call(t, f, tt.args...); r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			if got := f.request.Command.Args; strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("ran %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSelector(t *testing.T) {
	tests := []struct {
		args string
		want manager.Selector
	}{
		{"recreate --force --session s", manager.Selector{Session: "s"}},
		{"--session s recreate --force", manager.Selector{Session: "s"}},
		{"recreate --force --agent a --session s", manager.Selector{Agent: "a", Session: "s"}},
		{"recreate --force --agent main", manager.Selector{Agent: "main"}},
		{"recreate --force --all", manager.Selector{All: true}},
	}
	for _, tt := range tests {
		f := &fake{}
		if r := call(t, f, strings.Fields(tt.args)...); r.status != 0 {
			t.Fatalf("%s: status %d: %s", tt.args, r.status, r.stderr)
		}
		if f.selected != tt.want {
			t.Errorf("%s: selected %+v, want %+v", tt.args, f.selected, tt.want)
		}
	}
}
