package violation

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/policy"
)

// The maximum number of bytes that are kept of each text. A longer text is cut,
// and ends with "…".
const (
	maxProgram  = 64
	maxCommand  = 256
	maxRule     = 256
	maxMessage  = 512
	maxResource = 768
)

// A Record describes one attempt that was stopped, or allowed with a remark.
// Its texts may contain any characters, including control characters; bytes
// that are not UTF-8 are written as \xNN. It never contains an environment.
type Record struct {
	Time     time.Time         `json:"time"`
	Tenant   string            `json:"tenant"`
	Agent    string            `json:"agent"`
	Session  string            `json:"session"`
	Sandbox  string            `json:"sandbox"` // its name; empty when there was none
	Type     Type              `json:"type"`
	Severity policy.Severity   `json:"severity"`
	Verdict  policy.Verdict    `json:"verdict"`
	Kind     string            `json:"kind"` // of the resource: path, network, syscall, command, tool, limit
	Op       sandbox.Operation `json:"operation"`
	Resource string            `json:"resource"`
	Rule     string            `json:"rule"`    // the rule that decided, as a person would look for it in the settings
	Message  string            `json:"message"` // one sentence without trailing period
	Program  string            `json:"program"`
	Command  string            `json:"command"` // the offending part, at most 256 bytes
	// CommandDigest is the SHA-256 of the whole command when Command is not
	// all of it, as hex digits.
	CommandDigest string `json:"commandDigest"`
	Count         int64  `json:"count"` // how often it happened; at least 1
}

// bounded returns r with everything cut to what is kept.
func (r Record) bounded(now time.Time) Record {
	if r.Time.IsZero() {
		r.Time = now
	}
	r.Time = r.Time.UTC()
	r.Tenant, r.Agent, r.Session, r.Sandbox = journal.Name(r.Tenant), journal.Name(r.Agent), journal.Name(r.Session), journal.Name(r.Sandbox)
	r.Kind, r.Op = journal.Text(r.Kind, maxProgram), sandbox.Operation(journal.Text(string(r.Op), maxProgram))
	r.Resource, r.Rule, r.Message = journal.Text(r.Resource, maxResource), journal.Text(r.Rule, maxRule), journal.Text(r.Message, maxMessage)
	r.Program, r.Command, r.CommandDigest = journal.Text(r.Program, maxProgram), journal.Text(r.Command, maxCommand), journal.Text(r.CommandDigest, 2*sha256.Size)
	if r.Severity < policy.Low || r.Severity > policy.Critical {
		r.Severity = severityOf(r.Type)
	}
	if r.Verdict != policy.Allow && r.Verdict != policy.Ask {
		r.Verdict = policy.Deny
	}
	r.Count = max(r.Count, 1)
	return r
}

// encode returns a bounded r as JSON. One whose texts are all escapes is cut
// further until the journal takes it.
func (r Record) encode() (json.RawMessage, error) {
	data, err := json.Marshal(r)
	if err == nil && len(data) > journal.MaxRecord {
		const little = 128
		r.Resource, r.Rule, r.Message, r.Command = journal.Text(r.Resource, little), journal.Text(r.Rule, little), journal.Text(r.Message, little), journal.Text(r.Command, little)
		data, err = json.Marshal(r)
	}
	return data, err
}
