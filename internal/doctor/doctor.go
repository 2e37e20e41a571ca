// Package doctor checks whether this machine can run sandboxes, and says what
// to do where it cannot.
//
// Each check is one small function over [Deps]; all of them run at the same
// time, each with a deadline, so that one thing that hangs (an engine, a dead
// network file system) hides nothing else. A check never changes anything, but for
// that of a cluster which makes a pod and removes it.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Status is the verdict of a check.
type Status string

// The verdicts: as it should be; works, with something to know; does not work;
// not looked at, because it depends on a check that failed.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
	Skip Status = "skip"
)

// A Check is what was looked at, what was seen, and what to do about it.
// Detail and Fix are one line each and safe for a terminal; Fix is empty when
// there is nothing to do.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// A Report holds the checks in a fixed order.
type Report struct {
	Checks []Check `json:"checks"`
}

// Failed reports whether any check failed.
func (r Report) Failed() bool {
	for _, c := range r.Checks {
		if c.Status == Fail {
			return true
		}
	}
	return false
}

// Settings are what the checks need to know of the settings in force.
type Settings struct {
	Path           string   // of the file; empty when there is none
	Provider       string   // "docker", "local", "kubernetes", "auto" or one that a program has beside them
	Runtime        string   // engine runtime; empty is the engine's default
	Dangerous      []string // break-glass switches in force
	WorkspaceQuota int64    // bytes; 0 is unbounded
	Browser        Browser

	RequireEvidence bool // nothing runs that is not on record
	RecordsCommands bool // those without a grant too
}

// Leftovers are what earlier processes have left behind.
type Leftovers struct {
	Orphans []string // containers of ours without a record
	Missing []string // records without a container
	Corrupt []string // registry files that could not be read, or were set aside
}

// A ProviderCheck is a check that a provider contributes: the package of the
// provider knows what it needs, and this one knows only the engine's provider.
type ProviderCheck struct {
	Name     string
	Provider string // as settings name it; empty is "local"
	Look     func(ctx context.Context) (s Status, detail, fix string)
}

// Deps are what the checks ask. A nil function makes its checks warn that
// they could not look.
type Deps struct {
	EngineAddress string // where the engine is looked for, for messages
	Posture       func(ctx context.Context) (container.Posture, error)

	ImageRef string // the image that sandboxes are made from
	Image    func(ctx context.Context, ref string) (images.Image, error)

	Guest     func() (path string, err error) // finds the guest binary
	Settings  func() (Settings, error)        // reads and resolves the settings
	StateDir  string
	Leftovers func(ctx context.Context) (Leftovers, error)
	Evidence  func(ctx context.Context) (Evidence, error)

	// Authorities returns the file of docker.caFile, or "", and the certificates in
	// it as PEM. The error says why sandboxes cannot have them.
	Authorities func() (file string, certificates []byte, err error)

	// Local are the checks of the provider that needs no engine, and of
	// providers that a program has beside the built-in ones, see
	// [ProviderCheck].
	Local []ProviderCheck

	Host     Host
	Deadline time.Duration // of each check; default 30 s
}

// A finding is the verdict of one check before it has a name.
type finding struct {
	status      Status
	detail, fix string
}

func ok(format string, args ...any) finding { return finding{OK, fmt.Sprintf(format, args...), ""} }

func warn(fix, format string, args ...any) finding {
	return finding{Warn, fmt.Sprintf(format, args...), fix}
}

func fail(fix, format string, args ...any) finding {
	return finding{Fail, fmt.Sprintf(format, args...), fix}
}

// skip is the finding of a check that cannot look because the one called need
// failed, which says what to do.
func skip(need string) finding { return finding{Skip, "depends on " + need, ""} }

// A check is one thing to look at.
type check struct {
	name string
	look func(ctx context.Context, e *examination) finding
	wall string // the provider that it is about; empty: all
}

func checks(local []ProviderCheck) []check {
	out := []check{
		{engineCheck, engineAnswers, providerDocker},
		{"engine-address", engineIsLocal, providerDocker},
		{"api-version", apiVersion, providerDocker},
		{"storage-driver", storageDriver, providerDocker},
		{"engine-disk", engineDisk, providerDocker},
		{"cgroup", cgroup, providerDocker},
		{"limits", limits, providerDocker},
		{"seccomp", seccompSupport, providerDocker},
		{"process-limit", processLimit, providerDocker},
		{"apparmor", appArmor, providerDocker},
		{"engine-users", engineUsers, providerDocker},
		{"runtimes", runtimes, providerDocker},
		{"clock", clock, providerDocker},
		{"image", imagePresent, providerDocker},
		{"browser", ofBrowser(browserProviders), ""},
		{"browser-image", ofBrowser(browserImage), ""},
		{"browser-sandbox", ofBrowser(browserSandbox), ""},
		{"guest", guestBinary, ""},
		{"settings", settingsFile, ""},
		{"company-ca", companyCA, ""},
		{"break-glass", breakGlass, ""},
		{quotaCheck, workspaceQuota, ""},
		{"state-folder", stateFolder, ""},
		{"state-format", stateFormat, ""},
		{"state-disk", stateDisk, ""},
		{"evidence", evidenceKept, ""},
		{"leftovers", leftovers, ""},
	}
	for _, c := range local {
		look := func(ctx context.Context, _ *examination) finding {
			status, detail, fix := c.Look(ctx)
			return finding{status, detail, fix}
		}
		out = append(out, check{c.Name, look, cmp.Or(c.Provider, providerLocal)})
	}
	return out
}

// An examination is one run: the deps, and answers that several checks share.
type examination struct {
	Deps
	posture  func() (timedPosture, error)
	settings func() (Settings, error)
	layout   func() (statedir.Layout, error)
}

// A timedPosture is what the engine said, and when it was asked and answered
// by our clock.
type timedPosture struct {
	container.Posture
	asked, answered time.Time
}

// Run makes every check and returns when all have answered or their deadline
// has passed.
func Run(ctx context.Context, d Deps) Report {
	if d.Deadline <= 0 {
		d.Deadline = 30 * time.Second // only what hangs takes so long
	}
	ctx, done := context.WithTimeout(ctx, d.Deadline)
	defer done()
	e := &examination{Deps: d}
	e.posture = sync.OnceValues(func() (timedPosture, error) { return askPosture(ctx, d) })
	e.settings = sync.OnceValues(func() (Settings, error) {
		if d.Settings == nil {
			return Settings{}, errNotAsked
		}
		return d.Settings()
	})
	// Read before the checks begin: those that open the state folder migrate it.
	layout, unread := statedir.ReadLayout(d.StateDir)
	e.layout = func() (statedir.Layout, error) { return layout, unread }
	list := checks(d.Local)
	report := Report{Checks: make([]Check, len(list))}
	var wg sync.WaitGroup
	for i, c := range list {
		wg.Go(func() { report.Checks[i] = examine(ctx, e, c) })
	}
	wg.Wait()
	wanted := e.wanted(ctx)
	report.excuse(list, wanted)
	report.only(list, wanted)
	return report
}

// examine makes one check. A check that hangs in the kernel cannot be
// stopped; its goroutine is left to its fate and the check fails.
func examine(ctx context.Context, e *examination, c check) Check {
	answer := make(chan finding, 1)
	go func() { answer <- c.look(ctx, e) }()
	f := finding{Fail, fmt.Sprintf("no answer within %v", e.Deadline), "look what hangs: a dead network file system, or an engine that does not answer"}
	select {
	case f = <-answer:
	case <-ctx.Done():
		select { // an answer at the last moment counts
		case f = <-answer:
		case <-time.After(100 * time.Millisecond):
		}
	}
	return Check{Name: c.name, Status: f.status, Detail: termsafe.Line(f.detail), Fix: termsafe.Line(f.fix)}
}

func askPosture(ctx context.Context, d Deps) (timedPosture, error) {
	if d.Posture == nil {
		return timedPosture{}, errNotAsked
	}
	asked := d.Host.now()
	p, err := d.Posture(ctx)
	return timedPosture{p, asked, d.Host.now()}, err
}
