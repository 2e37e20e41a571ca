package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/journal"
	"github.com/bulkhead-dev/sandbox/policy"
)

// The most bytes that are kept of each text. What is longer is cut, and ends
// with "…".
const (
	maxOwner    = 256
	maxProgram  = 64
	maxCommand  = 256
	maxRule     = 256
	maxMessage  = 512
	maxResource = 768
)

// A Record is one thing that was tried and stopped, or allowed with a remark.
// Its texts may hold anything, control characters too, except bytes that are
// no UTF-8: these are written as \xNN. No environment is ever in it.
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
	r.Tenant, r.Agent, r.Session, r.Sandbox = owned(r.Tenant), owned(r.Agent), owned(r.Session), owned(r.Sandbox)
	r.Kind, r.Op = cut(r.Kind, maxProgram), sandbox.Operation(cut(string(r.Op), maxProgram))
	r.Resource, r.Rule, r.Message = cut(r.Resource, maxResource), cut(r.Rule, maxRule), cut(r.Message, maxMessage)
	r.Program, r.Command, r.CommandDigest = cut(r.Program, maxProgram), cut(r.Command, maxCommand), cut(r.CommandDigest, 2*sha256.Size)
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
		r.Resource, r.Rule, r.Message, r.Command = cut(r.Resource, little), cut(r.Rule, little), cut(r.Message, little), cut(r.Command, little)
		data, err = json.Marshal(r)
	}
	return data, err
}

// owned returns a name as it is kept. Names that settings allow are short
// enough to be kept as they are; of others the end is replaced by a digest, so
// that two never become one.
func owned(s string) string {
	if len(s) <= maxOwner && utf8.ValidString(s) {
		return s
	}
	return cut(s, maxOwner/2) + "#" + digest(s)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// cut returns s as valid UTF-8 of at most most bytes. Bytes that are none
// become \xNN.
func cut(s string, most int) string {
	const mark = "…"
	if len(s) > most {
		s = s[:most+1] // enough to see that it is too long
	}
	if !utf8.ValidString(s) {
		s = escapeInvalid(s)
	}
	if len(s) <= most {
		return s
	}
	at := most - len(mark)
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + mark
}

func escapeInvalid(s string) string {
	const hexDigits = "0123456789abcdef"
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[s[i]>>4])
			b.WriteByte(hexDigits[s[i]&0xf])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
