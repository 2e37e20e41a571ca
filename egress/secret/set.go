package secret

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Deps are a Set's dependencies on the machine. Zero fields are the real ones.
type Deps struct {
	LookupEnv func(string) (string, bool)
	Home      string // replaces ~

	// Exposed are canonical host folders writable from some sandbox. Nothing
	// is read or run whose path goes through them.
	Exposed []string

	Now func() time.Time

	commandTime time.Duration // limit for a command
	commandRest time.Duration // how long its child processes may keep its output open after its end
}

// A Set holds the secrets of one sandbox: stand-ins, and their values. It is
// safe for concurrent use. Its printed and encoded forms contain names only.
type Set struct {
	in *vault // behind a pointer, so that no copy of a Set prints it
}

type vault struct {
	deps    Deps
	secrets []*held // by name

	mu     sync.RWMutex // guards what follows, and value and seen of each secret
	closed bool
	match  *matcher // of every value that was ever read; nil when none
}

// held is one secret with its state.
type held struct {
	Binding
	standIn string
	targets []target

	turn  chan struct{} // semaphore for reading the source
	state reading       // guarded by turn
	value []byte
	seen  [][]byte // every value, newest last
}

// standInPrefix makes a stand-in recognizable for readers.
const standInPrefix = "sandbox_secret_"

// NewSet reads every value once, so that a missing one is reported before a
// program runs. ctx bounds that. Errors are *sandbox.Error: CodeValidation for
// an unusable binding or value, CodeUnavailable for a source that cannot be
// read; they name the source and never contain a value.
func NewSet(ctx context.Context, bindings []Binding, d Deps) (*Set, error) {
	if d.LookupEnv == nil {
		d.LookupEnv = os.LookupEnv
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if len(bindings) > maxBindings {
		return nil, malformed(fmt.Sprintf("there are more than %d secrets", maxBindings), "")
	}
	d.Exposed = slices.Clone(d.Exposed)
	v := &vault{deps: d}
	for _, b := range bindings {
		targets, err := b.targets()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(v.secrets, func(h *held) bool { return h.Name == b.Name }) {
			return nil, b.wrong("is bound twice", "name all its hosts in one binding")
		}
		b.Hosts, b.From.Command = slices.Clone(b.Hosts), slices.Clone(b.From.Command)
		v.secrets = append(v.secrets, &held{
			Binding: b, targets: targets, turn: make(chan struct{}, 1),
			standIn: standInPrefix + strings.ToLower(rand.Text()+rand.Text()[:6]),
		})
	}
	slices.SortFunc(v.secrets, func(a, b *held) int { return strings.Compare(a.Name, b.Name) })
	s := &Set{in: v}
	for _, h := range v.secrets {
		if err := v.refresh(ctx, h); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Names returns the names of the secrets, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	out := make([]string, len(s.in.secrets))
	for i, h := range s.in.secrets {
		out[i] = h.Name
	}
	return out
}

// Env returns the variables of commands: each name with its stand-in, which is
// unique to this Set. The caller owns the map.
func (s *Set) Env() map[string]string {
	env := map[string]string{}
	if s != nil {
		for _, h := range s.in.secrets {
			env[h.Name] = h.standIn
		}
	}
	return env
}

// Bound reports whether some secret may be sent to port of h, so that requests
// to it have to be read.
func (s *Set) Bound(h network.Host, port uint16) bool {
	return s != nil && slices.ContainsFunc(s.in.secrets, func(e *held) bool {
		return slices.ContainsFunc(e.targets, func(t target) bool { return t.matches(h, port) })
	})
}

// open reports whether the value may be sent to port of h.
func (h *held) open(host network.Host, port uint16, tls bool) bool {
	return slices.ContainsFunc(h.targets, func(t target) bool {
		return t.matches(host, port) && (tls || t.port != 0)
	})
}

// Close overwrites and removes the values. From then on no values are
// inserted, and reading from a reader of [Set.ScrubBody] is an error.
func (s *Set) Close() error {
	v := s.in
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	v.match.wipe()
	for _, h := range v.secrets {
		for _, value := range h.seen {
			clear(value)
		}
	}
	return nil
}

// String names the secrets.
func (s *Set) String() string { return "secrets " + strings.Join(s.Names(), ", ") }

// GoString names the secrets.
func (s *Set) GoString() string { return s.String() }

// Format names the secrets, whatever the verb.
func (s *Set) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalJSON encodes the names of the secrets.
func (s *Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

func errClosed() error {
	return sandbox.Errorf(sandbox.CodeUnavailable, "use secrets", "the sandbox's secrets were closed")
}
