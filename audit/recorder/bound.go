package recorder

import (
	"encoding/json"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// The most bytes that are kept of texts.
const (
	maxWord = 64
	maxHost = 300
	maxText = 512
	maxPath = 4096
	// maxFields bounds the settings that differ between a sandbox and the pool.
	maxFields = 16
	// maxLittle is what stays of each text where all together are too much:
	// the texts of a begin, each six times as long as JSON, still fit.
	maxLittle = 40
)

// name keeps a name as [evidence.Record] does, so that it can be found.
func name(s string, little bool) string {
	if little {
		return journal.Text(s, maxLittle)
	}
	return journal.Name(s)
}

// text keeps at most most bytes of s.
func text(s string, most int, little bool) string {
	if little {
		most = min(most, maxLittle)
	}
	return journal.Text(s, most)
}

// digest keeps a digest; the names of algorithms and their sums are short.
func digest(d evidence.Digest, little bool) evidence.Digest {
	d.Algo, d.B64 = text(d.Algo, maxWord, little), text(d.B64, 2*maxWord, little && len(d.B64) > maxWord)
	return d
}

// boundBegin returns b as it is kept.
func boundBegin(b evidence.Begin, little bool) evidence.Begin {
	for _, s := range []*string{&b.Tenant, &b.Subject, &b.Agent, &b.Session, &b.Tool, &b.Call, &b.Grant, &b.Sandbox, &b.RequestID} {
		*s = name(*s, little)
	}
	for _, s := range []*string{&b.ProfileHash, &b.PolicyVersion, &b.ManifestVersion, &b.TraceParent} {
		*s = text(*s, 2*maxWord, little)
	}
	b.Kind = grant.OpKind(text(string(b.Kind), maxWord, little))
	b.Capability = text(b.Capability, maxText, little)
	b.Inputs = digest(b.Inputs, little)
	if b.Parent != nil {
		p := *b.Parent
		p.Checkpoint, p.Sandbox, p.Session = name(p.Checkpoint, little), name(p.Sandbox, little), name(p.Session, little)
		b.Parent = &p
	}
	r := &b.Request
	r.Path, r.Host, r.Program = text(r.Path, maxPath, little), text(r.Host, maxHost, little), name(r.Program, little)
	r.Method, r.Scheme = text(r.Method, maxWord, little), text(r.Scheme, maxWord, little)
	return b
}

// boundEnd returns e as it is kept. Its list of effects is its own afterwards.
func boundEnd(e evidence.End, little bool) evidence.End {
	e.Code = sandbox.Code(text(string(e.Code), maxWord, little))
	e.Rule, e.Detail, e.Resource = text(e.Rule, maxText, little), text(e.Detail, maxText, little), text(e.Resource, maxText, little)
	e.Outputs, e.Made = digest(e.Outputs, little), boundMade(e.Made, little)
	keep := min(len(e.Effects), evidence.MaxEffects)
	e.More = max(e.More, 0) + len(e.Effects) - keep
	effects := make([]evidence.Effect, keep)
	for i, f := range e.Effects[:keep] {
		f.Kind = grant.SideEffect(text(string(f.Kind), maxWord, little))
		f.Path, f.Host, f.Program = text(f.Path, maxText, little), text(f.Host, maxHost, little), name(f.Program, little)
		f.Method, f.Digest = text(f.Method, maxWord, little), digest(f.Digest, little)
		effects[i] = f
	}
	e.Effects = effects
	return e
}

// encodeBegin returns a begin as data that fit into a record. One that is too
// large loses its path's end first, because that is the longest.
// boundMade is what is kept of how a sandbox was made.
func boundMade(m *evidence.Made, little bool) *evidence.Made {
	if m == nil || m.Miss == nil {
		return m
	}
	miss := *m.Miss
	miss.Reason = pool.Reason(text(string(miss.Reason), maxWord, little))
	miss.Detail = text(miss.Detail, maxText, little)
	fields := make([]string, min(len(miss.Fields), maxFields))
	for i := range fields {
		fields[i] = text(miss.Fields[i], 2*maxWord, little)
	}
	miss.Fields = fields
	if len(fields) == 0 {
		miss.Fields = nil
	}
	return &evidence.Made{Claimed: m.Claimed, Miss: &miss}
}

func encodeBegin(b evidence.Begin) (json.RawMessage, error) {
	b = boundBegin(b, false)
	data, err := json.Marshal(b)
	for most := maxPath / 4; err == nil && len(data) > evidence.MaxData && most >= maxText/2; most /= 2 {
		b.Request.Path = journal.Text(b.Request.Path, most)
		data, err = json.Marshal(b)
	}
	if err == nil && len(data) > evidence.MaxData {
		data, err = json.Marshal(boundBegin(b, true))
	}
	return data, encoded(err)
}

// encodeEnd returns an end as data that fit into a record. One that is too
// large names fewer of its effects, and counts the others.
func encodeEnd(e evidence.End) (json.RawMessage, error) {
	e = boundEnd(e, false)
	data, err := json.Marshal(e)
	for err == nil && len(data) > evidence.MaxData && len(e.Effects) > 0 {
		keep := len(e.Effects) * 3 / 4
		e.More += len(e.Effects) - keep
		e.Effects = e.Effects[:keep]
		data, err = json.Marshal(e)
	}
	if err == nil && len(data) > evidence.MaxData {
		data, err = json.Marshal(boundEnd(e, true))
	}
	return data, encoded(err)
}

// encoded says why a record has no form: a time outside of the years that
// there are.
func encoded(err error) error {
	if err == nil {
		return nil
	}
	return sandbox.Errorf(sandbox.CodeValidation, "record evidence", "cannot encode a record: %w", err)
}
