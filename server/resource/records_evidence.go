package resource

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// An evidenceStore reads the records of what was done; *evidence.Store is one.
type evidenceStore interface {
	Query(ctx context.Context, f evidence.Filter) iter.Seq2[evidence.Record, error]
	Verified(ctx context.Context, c evidence.Check) (evidence.Verified, error)
}

// recordsEvidence is the resource for the records of what was done.
type recordsEvidence struct{ store evidenceStore }

// NewEvidence returns the resource.
func NewEvidence(s evidenceStore) *recordsEvidence { return &recordsEvidence{s} }

// reading is how long reading all records of a tenant may take.
const reading = 5 * time.Minute

// statusOpen is the status of an operation without an end.
const statusOpen = "open"

// Routes implements [Resource].
func (e *recordsEvidence) Routes() []Route {
	var types []string
	for _, t := range evidence.Types() {
		types = append(types, string(t))
	}
	return []Route{{
		ID: "listEvidence", Method: http.MethodGet, Path: api.Prefix + "/evidence", Tag: "records", Role: token.Session,
		Summary: "List records of evidence", Doc: "The newest first. Texts come from inside of sandboxes and may hold anything. " + streamDoc,
		Query: append([]Param{limitParam(), {Name: "type", Enum: types, Doc: "Only of this type; all but checkpoints without"},
			{Name: "command", Length: 128, Doc: "Only of the run or operation with this id"}}, scopeParams()...),
		Response: api.EvidenceList{}, Errors: []int{503, 504}, Timeout: reading, Stream: true, Events: recordEvents(api.EvidenceRecord{}), Do: e.list,
	}, {
		ID: "listOperations", Method: http.MethodGet, Path: api.Prefix + "/evidence/operations", Tag: "records", Role: token.Session,
		Summary: "List operations with their begin and end", Doc: "The newest first. An operation whose begin is no longer on record is there with its end alone.",
		Query: append([]Param{limitParam(),
			{Name: "status", Enum: []string{"ok", "denied", "error", "aborted", statusOpen}, Doc: "Only those that ended so; open has no end yet"},
			{Name: "code", Length: 64, Doc: "Only those that ended with this code of an error"},
			{Name: "tool", Length: 128, Doc: "Only those of this tool"}, {Name: "call", Length: 256, Doc: "Only those of this tool call"},
			{Name: "grant", Length: 256, Doc: "Only those under this grant"}, {Name: "id", Length: 128, Doc: "Only this one"}}, scopeParams()...),
		Response: api.OperationList{}, Errors: []int{503, 504}, Timeout: reading, Do: e.operations,
	}, {
		ID: "verifyEvidence", Method: http.MethodGet, Path: api.Prefix + "/evidence/verify", Tag: "records", Role: token.Tenant,
		Summary: "Verify the chains of evidence", Doc: "The tenant's own records. A report that something is not as it was written is an answer, not a problem.",
		Query: []Param{
			{Name: "all", Type: Boolean, Doc: "Every tenant's; for admins"},
			{Name: "key", Length: 128, Repeat: true, Doc: "Only signatures of this public key in base64 count, or of another one that is given"},
			{Name: "signed", Length: 128, Doc: "This line, as its number, a colon and its hash, has to be there and signed"},
		},
		Response: api.EvidenceReport{}, Errors: []int{503, 504}, Timeout: reading, Do: e.verify,
	}}
}

func (s scope) evidence() evidence.Filter {
	return evidence.Filter{Tenant: s.tenant, AllTenants: s.all, Agent: s.agent, Session: s.session, Sandbox: s.sandbox, Since: s.since, Until: s.until}
}

func (e *recordsEvidence) list(c *Call) (any, error) {
	s, err := scopeOf(c)
	if err != nil {
		return nil, err
	}
	f := s.evidence()
	f.Type, f.Command, f.Limit = evidence.Type(c.Text("type")), c.Text("command"), oneMore(s.limit)
	all := e.store.Query(c.Context(), f)
	if c.Accepts(api.ContentEvents) {
		return streamList(c, all, s.limit, shownEvidence)
	}
	out := api.EvidenceList{Evidence: []api.EvidenceRecord{}}
	out.More, out.Damaged, err = gather(all, s.limit, func(r evidence.Record) error {
		out.Evidence = append(out.Evidence, shownEvidence(r))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func shownEvidence(r evidence.Record) api.EvidenceRecord {
	return api.EvidenceRecord{
		Time: r.Time.UTC(), Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Sandbox: r.Sandbox,
		Command: r.Command, Type: string(r.Type), Data: r.Data, Omitted: r.Omitted,
	}
}

func (e *recordsEvidence) operations(c *Call) (any, error) {
	s, err := scopeOf(c)
	if err != nil {
		return nil, err
	}
	// The filter applies to the begin of an operation, so that it does not
	// remove the end; tenant, agent and session are the same for both.
	f := s.evidence()
	all := e.store.Query(c.Context(), evidence.Filter{Tenant: f.Tenant, AllTenants: f.AllTenants})
	out := api.OperationList{Operations: []api.OperationRecord{}}
	out.More, out.Damaged, err = gather(meant(c, evidence.Newest(all), f), s.limit, func(i evidence.Item) error {
		r, err := recordOf(i)
		out.Operations = append(out.Operations, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// meant passes on the operations that the query selects.
func meant(c *Call, all iter.Seq2[evidence.Item, error], f evidence.Filter) iter.Seq2[evidence.Item, error] {
	return func(yield func(evidence.Item, error) bool) {
		for i, err := range all {
			if err == nil && !(i.Operation() && f.Match(i.First()) && selected(c, i)) {
				continue
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

func selected(c *Call, i evidence.Item) bool {
	have := map[string]string{"status": statusOpen}
	if b := i.Begin; b != nil {
		have["id"], have["tool"], have["call"], have["grant"] = b.ID, b.Tool, b.Call, b.Grant
	}
	if e := i.End; e != nil {
		have["id"], have["status"], have["code"] = e.ID, string(e.Status), string(e.Code)
	}
	for _, name := range []string{"id", "status", "code", "tool", "call", "grant"} {
		if c.Given(name) && c.Text(name) != have[name] {
			return false
		}
	}
	return true
}

func recordOf(i evidence.Item) (api.OperationRecord, error) {
	r := api.OperationRecord{Status: statusOpen}
	var err error
	if i.Begin != nil {
		r.ID = i.Begin.ID
		if r.Begin, err = json.Marshal(i.Begin); err != nil {
			return r, err
		}
	}
	if i.End != nil {
		r.ID, r.Status = i.End.ID, string(i.End.Status)
		r.End, err = json.Marshal(i.End)
	}
	return r, err
}

func (e *recordsEvidence) verify(c *Call) (any, error) {
	all := c.True("all")
	switch {
	case all && !c.Admin():
		return nil, notYours("all")
	case c.Caller.Agent != "":
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "verify", Message: "the records of a tenant are one chain, and the token is for one agent of it"}
	}
	what := evidence.Check{Tenant: c.Who.Tenant, AllTenants: all}
	var err error
	if what.Keys, what.Signed, err = counting(c); err != nil {
		return nil, err
	}
	v, err := e.store.Verified(c.Context(), what)
	if err != nil {
		return nil, err
	}
	out := api.EvidenceReport{OK: true, Keys: []api.EvidenceKey{}, Chains: []api.EvidenceChain{}}
	for _, key := range v.Keys {
		out.Keys = append(out.Keys, api.EvidenceKey{ID: evidence.KeyID(key), Public: evidence.Public(key)})
	}
	for _, chain := range v.Chains {
		if chain.Old && !c.Admin() {
			continue // it holds every tenant's
		}
		out.Chains = append(out.Chains, chainOf(chain))
		out.OK = out.OK && chain.OK()
	}
	return out, nil
}

// counting reads which keys are trusted, and what has to be signed.
func counting(c *Call) (keys []ed25519.PublicKey, signed *journal.Place, err error) {
	for _, text := range c.Texts("key") {
		k, err := evidence.ParsePublic(text)
		if err != nil {
			return nil, nil, Invalid("key", "is no public key in base64")
		}
		keys = append(keys, k)
	}
	if !c.Given("signed") {
		return keys, nil, nil
	}
	if c.True("all") {
		return nil, nil, Invalid("signed", "goes with one tenant: each has a chain of its own")
	}
	line, hash, _ := strings.Cut(c.Text("signed"), ":")
	seq, err := strconv.ParseUint(line, 10, 64)
	if err != nil || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "" {
		return nil, nil, Invalid("signed", "is the number of a line, a colon and its hash of 64 hex digits")
	}
	return keys, &journal.Place{Seq: seq, Hash: hash}, nil
}

func chainOf(c evidence.Chain) api.EvidenceChain {
	out := api.EvidenceChain{
		OK: c.OK(), Tenant: c.Tenant, Folder: c.Folder, Old: c.Old, First: api.EvidenceLine(c.First), Last: api.EvidenceLine(c.Last), Keys: append([]string{}, c.Keys...), Files: c.Files, Records: c.Records, Dropped: c.Dropped,
		Checkpoints: c.Checkpoints, Unsigned: c.Unsigned, Torn: c.Torn, Damage: []api.EvidenceFault{}, Omitted: c.Omitted,
	}
	if c.Signed != nil {
		out.Signed = &api.EvidencePlace{File: c.Signed.File, Seq: c.Signed.Seq, Hash: c.Signed.Hash, Records: c.Signed.Records, Key: c.Signed.Key}
	}
	damage, more := recordsMost(c.Damage)
	out.Omitted += more
	for _, d := range damage {
		out.Damage = append(out.Damage, faultOf(d))
	}
	if b := c.Broken; b != nil {
		out.Broken = &api.EvidenceBroken{EvidenceFault: faultOf(b.Damage), ID: b.ID, Type: string(b.Type)}
	}
	return out
}

// recordsMost returns at most 100 places of damage, those that were changed
// before those that are only incomplete, and how many changed places it has left
// out.
func recordsMost(damage []journal.Damage) (shown []journal.Damage, changed int) {
	const most = 100
	torn := func(d journal.Damage) bool { return d.Kind == journal.DamageTorn }
	for _, kind := range []bool{false, true} {
		for _, d := range damage {
			switch {
			case torn(d) != kind:
			case len(shown) < most:
				shown = append(shown, d)
			case !kind:
				changed++
			}
		}
	}
	return shown, changed
}

func faultOf(d journal.Damage) api.EvidenceFault {
	return api.EvidenceFault{Kind: d.Kind, File: d.File, Line: d.Line, Offset: d.Offset, Seq: d.Seq, Detail: d.Detail}
}
