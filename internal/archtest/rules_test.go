package archtest

// A rule limits what packages may import. Patterns are import paths; "./x" is
// a package of this module and "." its root; a trailing "/..." takes
// everything below along; "std" is the standard library.
type rule struct {
	name   string
	why    string
	from   []string // the packages concerned
	except []string // of these, not concerned
	deep   bool     // what they import indirectly counts too
	only   []string // when set: they may import nothing else
	never  []string // when set: they may not import these
	but    []string // of never, allowed after all
}

// pure lists the packages that only compute: no network, no process, no file,
// no clock.
var pure = []string{
	"./policy/network", "./confighash",
	"./internal/jsonschema",
	"./grant", "./policy/hardening",
	"./policy/...", "./registry/pool", "./provider/local/plan", "./provider/local/plan",
	"./provider/local/plan", "./provider/seccomp/...", "./tenant", "./internal/termsafe", "./toolpolicy",
	"./tools/schema",
}

// concrete lists the providers that exist; the word stands for itself and
// what lies below it.
var concrete = []string{"./provider/docker/...", "./provider/local/...", "./provider/fake/...", "./provider/kubernetes"}

// rules is the whole architecture in one table.
var rules = []rule{
	{
		name: "the root package stands alone",
		why:  "everybody imports it, so whatever it imports everybody carries",
		from: []string{"."}, deep: true, only: []string{"std"},
	},
	{
		name: "pure packages touch nothing",
		why:  "decisions are tested as tables and must not depend on the machine",
		from: pure, never: []string{
			"os", "os/...", "io/ioutil", "net", "net/http/...", "syscall",
			"golang.org/x/sys/...", "golang.org/x/term/...", "github.com/docker/...",
			"github.com/gofrs/flock/...", "github.com/google/renameio/...", "github.com/creack/pty/...",
		},
	},
	{
		name: "pure packages build on pure packages",
		why:  "what a dependency of ours touches, they would touch",
		from: pure, deep: true, never: []string{"./..."}, but: append([]string{".", "./internal/hostpath", "./config", "./audit/evidence", "./grant/budget", "./fsbridge"}, pure...), // of hostpath, config uses ExpandVariables alone
	},
	{
		name: "two packages speak to the engine",
		why:  "deadlines, error codes and API versions are handled in one place",
		from: []string{"./..."}, except: []string{"./container/...", "./images/...", "./internal/bench"},
		never: []string{"github.com/docker/docker/..."},
	},
	{
		name: "one package speaks to Kubernetes",
		why:  "its client is large, and only what serves and what uses such a cluster links it",
		from: []string{"./..."}, except: []string{"./provider/kubernetes"},
		never: []string{"k8s.io/..."},
	},
	{
		name: "metrics are shown in one package",
		why:  "everybody else tells an operation.Observer, and links no Prometheus",
		from: []string{"./..."}, except: []string{"./server", "./cmd/..."},
		never: []string{"github.com/prometheus/..."},
	},
	{
		name: "the guest is lean",
		why:  "it runs in every sandbox: memory and start time are paid each time",
		from: []string{"./guest/server/...", "./cmd/sandbox-guest/..."}, deep: true,
		only: []string{"std", "golang.org/x/sys/...", ".", "./guest/wire/...", "./guest/server/...", "./internal/attack/probe", "./provider/seccomp"},
	},
	{
		name: "the guest brings no web server, no reflection-heavy formats",
		why:  "they double its size and start time",
		from: []string{"./guest/wire/...", "./guest/server/...", "./cmd/sandbox-guest/..."}, deep: true,
		never: []string{"net/http/...", "crypto/tls/...", "text/template/...", "html/template/..."},
	},
	{
		name: "the wire knows nobody",
		why:  "both sides speak it",
		from: []string{"./guest/wire/..."}, deep: true, only: []string{"std", "golang.org/x/sys/...", ".", "./guest/wire"},
	},
	{
		name: "files and browser know no provider",
		why:  "they work on every wall through the root's interfaces",
		from: []string{"./fsbridge/...", "./browser/..."}, deep: true,
		never: []string{"./provider/..."}, but: []string{"./provider/seccomp"},
	},
	{
		name: "prune knows no provider",
		why:  "it sees records, infos and a one-method remover",
		from: []string{"./prune/..."}, deep: true,
		never: []string{"./provider/...", "./container/...", "./images/...", "./manager/..."}, but: []string{"./provider/seccomp"},
	},
	{
		name: "concrete providers are wired in one place",
		why:  "nobody else may depend on a particular wall",
		from: []string{"./..."}, except: append([]string{"./orchestrator", "./cmd/sandbox/...", "./internal/testenv/dockertest", "./internal/testenv/served", "./internal/bench/..."}, concrete...),
		never: concrete,
	},
	{
		name: "providers know no settings and no records",
		why:  "they get a Spec; where it came from is not their business",
		from: []string{"./provider/...", "./container/...", "./images/..."}, except: []string{"./provider/providertest"}, deep: true,
		never: []string{"./config/...", "./config/...", "./registry/...", "./manager/...", "./internal/cli/..."},
	},
	{
		name: "one conductor, called from above",
		why:  "direction: cmd, daemon and tools call the manager, never the other way",
		from: []string{"./..."},
		except: []string{
			"./manager/...", "./orchestrator", "./tools/...", "./server/...", "./server/mcp/...", "./internal/doctor/...", "./internal/cli/...", "./cmd/sandbox/...",
			"./internal/testenv/served", // serves a manager to tests
			"./manager/...", "./tools/...", "./server/...", "./server/mcp/...", "./internal/doctor/...", "./sdk", "./internal/cli/...", "./cmd/sandbox/...",
			"./internal/bench", // measure browsers and operations as programs have them
		},
		never: []string{"./manager/..."},
	},
	{
		name: "nobody imports the command line",
		why:  "it is the outermost layer",
		from: []string{"./..."}, except: []string{"./cmd/...", "./internal/cli/..."},
		never: []string{"./cmd/...", "./internal/cli/..."},
	},
	{
		name: "test code stays in tests",
		why:  "a program must not carry the testing package and its flags",
		from: []string{"./..."}, except: []string{"./provider/providertest/...", "./fsbridge/fstests/...", "./internal/testenv/..."},
		never: []string{"testing", "testing/...", "./provider/providertest/...", "./internal/testenv/...", "go.uber.org/goleak/..."},
	},
	{
		name: "no C and no plug-ins",
		why:  "every binary must build as a static one, and nothing is loaded at run time",
		from: []string{"./..."}, never: []string{"C", "plugin"},
	},
}

// impure lists functions that pure packages must not call although they come
// from packages which they may import.
var impure = map[string][]string{
	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"},
	"time":          {"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"},
	"math/rand":     {"*"},
	"math/rand/v2":  {"*"},
	"crypto/rand":   {"*"},
}

// badNames are package names that say nothing about what is inside.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib"}

// skips are files and folders with tests that may skip by themselves, with the
// reason.
var skips = map[string]string{
	"fsbridge/fstests":                      "a rig says what it cannot bring about",
	"internal/testenv/testenv.go":           "is what everybody else asks",
	"provider/local/attack_attempt_test.go": "root's run shows what only root can try",
	"provider/local/attack_main_test.go":    "an ordinary user's run is what it would start",
	"provider/providertest":                 "a wall says what it cannot do",
}

// sleeps are files and folders with tests that may sleep by the real clock,
// with the reason.
var sleeps = map[string]string{
	"grant/ledger/rig_test.go":     "processes that meet have no test to fail",
	"internal/testenv":             "is what everybody else asks",
	"provider/providertest/rig.go": "a harness says how long it waits",
	"server/auth/watch_test.go":    "called in bubbles",
	"server/attack_world_test.go":  "watches by loops of its own",
	"tenant/fair_share_test.go":    "called in bubbles",

	"browser":         "watches by loops of its own",
	"cmd/sandbox":     "watches by loops of its own",
	"guest/client":    "watches by loops of its own",
	"internal/bench":  "what is measured sleeps",
	"internal/attack": "watches by loops of its own",
	"provider/docker": "watches by loops of its own",
	"provider/local":  "watches by loops of its own",
}

// variables are package-level variables that may exist, with the reason.
var variables = map[string]string{
	"cmd/sandbox.version":       "set by the linker",
	"internal/cli.version":      "set by the linker",
	"cmd/sandbox-guest.version": "set by the linker",

	"guest/server/nofile.inherited":      "read once, before package os changes it",
	"internal/testenv.browserMissing":    "asked once per test process",
	"internal/testenv.codeMissing":       "asked once per test process",
	"internal/testenv.buildGuest":        "built once per test process",
	"internal/testenv.engineMissing":     "asked once per test process",
	"internal/testenv.e2bMissing":        "asked once per test process",
	"internal/testenv.adaptersMissing":   "asked once per test process",
	"internal/testenv.agentsMissing":     "asked once per test process",
	"internal/testenv.inspectorMissing":  "asked once per test process",
	"internal/testenv.netToolsMissing":   "asked once per test process",
	"internal/testenv.playwrightMissing": "asked once per test process",
	"internal/testenv.kubeMissing":       "asked once per test process",
	"internal/testenv.redoclyMissing":    "asked once per test process",
	"internal/testenv.sshdMissing":       "asked once per test process",
	"internal/testenv.userMissing":       "asked once per test process",
	"internal/testenv.sandboxMissing":    "asked once per test process",
	"policy/command.builtin":             "built once per process: all policies read the same tables",
}
