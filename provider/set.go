// Package provider maps names to providers. The map is an explicit list that
// the program's wiring hands over: nothing registers itself, so what a program
// can build is visible in one line of its main package.
package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// AutoName is the word by which settings ask for [Set.Auto]. No provider may
// be called that.
const AutoName = "auto"

// HostName is the name of the provider without isolation, to which settings
// lead by other settings only.
const HostName = "host"

// probeTimeout bounds one probe, so that an engine that accepts connections
// and never answers cannot stall the choice. It is long, because a provider on
// a busy machine takes seconds, and must not count as missing.
const probeTimeout = 15 * time.Second

// A Prober can report cheaply whether it could build a sandbox now. Probe
// returns nil when it could and the reason otherwise. A provider without it
// counts as usable.
type Prober interface {
	Probe(ctx context.Context) error
}

// An OptionProber is a Prober whose answer depends on the provider's own
// options, as sandbox.Spec has them.
type OptionProber interface {
	Prober
	ProbeWith(ctx context.Context, options map[string]any) error
}

// Probe asks p whether it could build a sandbox now with these options, if p
// is a [Prober].
func Probe(ctx context.Context, p sandbox.Provider, options map[string]any) error {
	switch pr := p.(type) {
	case OptionProber:
		return pr.ProbeWith(ctx, options)
	case Prober:
		return pr.Probe(ctx)
	}
	return nil
}

// A Sweeper can leave things on the host when its program is killed. Sweep
// removes what no program holds any more, and nothing that one does.
type Sweeper interface {
	Sweep(ctx context.Context) error
}

// A TenantSweeper keeps something for each tenant beside its sandboxes. SweepTenants
// removes that of tenants that have no sandbox and were not served for the duration
// idle, and returns the names of what was removed, also with an error. 0 removes nothing.
type TenantSweeper interface {
	SweepTenants(ctx context.Context, idle time.Duration) (removed []string, err error)
}

// A TenantSeparator can keep the sandboxes of a tenant where none that was made for all
// is. Separates reports whether it does, so that none of the pool can become one.
type TenantSeparator interface {
	Separates(tenant string) bool
}

// A Set is a fixed list of providers. It is safe for concurrent use.
type Set struct {
	byName map[string]sandbox.Provider
	names  []string // in the order given to New
}

// New returns the set of ps. An empty name, a name used twice, the reserved
// name "auto" and a nil provider are errors with [sandbox.CodeValidation].
func New(ps ...sandbox.Provider) (*Set, error) {
	s := &Set{byName: make(map[string]sandbox.Provider, len(ps))}
	for i, p := range ps {
		if p == nil {
			return nil, invalid("", "provider %d of the set is nil", i)
		}
		name := p.Name()
		switch {
		case strings.TrimSpace(name) == "":
			return nil, invalid("", "provider %d of the set has no name", i)
		case name == AutoName:
			return nil, invalid(name, "%q is the word for choosing a provider and cannot name one", name)
		case s.byName[name] != nil:
			return nil, invalid(name, "two providers are called %q", name)
		}
		s.byName[name] = p
		s.names = append(s.names, name)
	}
	return s, nil
}

// Names returns the names in the order given to [New].
func (s *Set) Names() []string {
	return append([]string(nil), s.names...)
}

// Get returns the provider called name. An unknown name is an error with
// [sandbox.CodeValidation] that lists the known ones; "auto" is unknown here,
// because the choice needs a context and has a reason (see [Set.Auto]).
func (s *Set) Get(name string) (sandbox.Provider, error) {
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	e := invalid(name, "unknown provider %q", name)
	e.Hint = "use " + s.oneOf() + "; a Go program adds a provider with orchestrator.Options.Providers"
	return nil, e
}

// A Choice is what Auto decided and why. The reason is one line for the log
// and for people: it names the provider taken and what spoke against each
// that stood before it.
type Choice struct {
	Provider sandbox.Provider
	Reason   string
	Rejected []Rejection // in the order they were asked
}

// A Rejection is a provider that could not be used and what it said.
type Rejection struct {
	Name string
	Err  error
}

// Auto returns the first provider of order that can build sandboxes now.
// options holds the options of providers whose probe depends on them. Auto
// rejects a name that is not in the set, or whose probe fails, and tries the
// next one; the caller must show [Choice.Reason], because a later provider may
// isolate less than an earlier one. When none is left the error has
// [sandbox.CodeUnavailable] and holds every rejection. The end of ctx is an
// error ([sandbox.CodeTimeout]) and never counts as a rejection: a caller that
// stopped waiting has not agreed to another provider.
func (s *Set) Auto(ctx context.Context, options map[string]any, order ...string) (Choice, error) {
	var rejected []Rejection
	for _, name := range order {
		if err := ctx.Err(); err != nil {
			return Choice{}, interrupted(err)
		}
		err := s.probe(ctx, name, options)
		if ended := ctx.Err(); err != nil && ended != nil {
			return Choice{}, interrupted(ended)
		}
		if err == nil {
			return Choice{
				Provider: s.byName[name],
				Reason:   reason(name, rejected),
				Rejected: rejected,
			}, nil
		}
		rejected = append(rejected, Rejection{Name: name, Err: err})
	}
	return Choice{}, exhausted(rejected)
}

// probe asks one provider whether it can be used.
func (s *Set) probe(ctx context.Context, name string, options map[string]any) error {
	p, ok := s.byName[name]
	if !ok {
		return errors.New("not part of this program")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := Probe(ctx, p, options)
	if err != nil && ctx.Err() != nil { // what came of the end would tell another reason
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "probe", Resource: name, Message: fmt.Sprintf("has not answered within %v", probeTimeout),
			Hint: "try again when the machine has less to do; sandbox doctor tells more", Err: err,
		}
	}
	return err
}

func (s *Set) oneOf() string {
	names := slices.DeleteFunc(s.Names(), func(name string) bool { return name == HostName })
	if len(names) == 0 {
		return "a program that was built with providers"
	}
	return "one of " + strings.Join(names, ", ")
}

func reason(name string, rejected []Rejection) string {
	if len(rejected) == 0 {
		return name + " answers"
	}
	return fmt.Sprintf("%s is the first that answers; %s", name, describe(rejected))
}

func describe(rejected []Rejection) string {
	parts := make([]string, len(rejected))
	for i, r := range rejected {
		parts[i] = fmt.Sprintf("not %s: %v", r.Name, r.Err)
	}
	return strings.Join(parts, "; ")
}

func exhausted(rejected []Rejection) error {
	causes := make([]error, len(rejected))
	for i, r := range rejected {
		causes[i] = fmt.Errorf("%s: %w", r.Name, r.Err)
	}
	return &sandbox.Error{
		Code:      sandbox.CodeUnavailable,
		Op:        "choose provider",
		Message:   "no provider can be used",
		Hint:      "run `sandbox doctor` to see what each one needs",
		Retryable: true,
		Err:       errors.Join(causes...),
	}
}

func interrupted(err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: "choose provider",
		Message: "the call ended before a provider was chosen", Retryable: true, Err: err,
	}
}

func invalid(resource, format string, args ...any) *sandbox.Error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "choose provider", Field: "provider",
		Resource: resource, Message: fmt.Sprintf(format, args...),
	}
}
