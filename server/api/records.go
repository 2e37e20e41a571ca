package api

import (
	"encoding/json"
	"time"
)

// An Approval is a question that waits for a person to answer it.
type Approval struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Agent     string    `json:"agent"`
	Session   string    `json:"session"`
	Sandbox   string    `json:"sandbox"`
	Kind      string    `json:"kind" doc:"Of the resource: path, network, command"`
	Operation string    `json:"operation"`
	Resource  string    `json:"resource" doc:"Of a path as it is called inside, and for admins as the daemon's machine has it"`
	Command   []string  `json:"command"`
	Reason    string    `json:"reason"`
	Expires   time.Time `json:"expires" doc:"When no answer is a no"`
}

// An ApprovalList holds the questions that wait for an answer.
type ApprovalList struct {
	Items []Approval `json:"items"`
}

// AnswerApproval is the answer.
type AnswerApproval struct {
	Permission string `json:"permission" required:"true" enum:"deny,allow_once,allow_session,allow_permanent"`
	Note       string `json:"note,omitempty" maxlen:"1024"`
}

// A ViolationRecord is the record of one action that was stopped.
type ViolationRecord struct {
	Time     time.Time `json:"time"`
	Tenant   string    `json:"tenant"`
	Agent    string    `json:"agent"`
	Session  string    `json:"session"`
	Sandbox  string    `json:"sandbox"`
	Type     string    `json:"type"`
	Severity string    `json:"severity" enum:"low,medium,high,critical"`
	Verdict  string    `json:"verdict"`

	Kind          string `json:"kind"`
	Operation     string `json:"operation"`
	Resource      string `json:"resource"`
	Rule          string `json:"rule"`
	Message       string `json:"message"`
	Program       string `json:"program"`
	Command       string `json:"command"`
	CommandDigest string `json:"commandDigest"`
	Count         int64  `json:"count"`
}

// A ViolationList is a page of the records, the newest first.
type ViolationList struct {
	Violations []ViolationRecord `json:"violations"`
	More       bool              `json:"more"`
	Damaged    int               `json:"damaged" doc:"Places of the records that cannot be read"`
}

// Cleared says how many records were removed.
type Cleared struct {
	Removed int64 `json:"removed"`
}

// An EvidenceRecord is the record of one action that was carried out.
type EvidenceRecord struct {
	Time    time.Time       `json:"time"`
	Tenant  string          `json:"tenant"`
	Agent   string          `json:"agent"`
	Session string          `json:"session"`
	Sandbox string          `json:"sandbox"`
	Command string          `json:"command"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data"`
	Omitted int64           `json:"omitted,omitempty"`
}

// An EvidenceList is a page of the records, the newest first.
type EvidenceList struct {
	Evidence []EvidenceRecord `json:"evidence"`
	More     bool             `json:"more"`
	Damaged  int              `json:"damaged"`
}

// Names of the events of streamed records.
const (
	EventRecord  = "record"  // data is a [ViolationRecord] or an [EvidenceRecord]
	EventDamaged = "damaged" // data is a [DamagedPlace]
	EventEnd     = "end"     // data is an [EndOfRecords]; the last event
)

// A DamagedPlace is a place in the records that cannot be read. The records
// behind it follow.
type DamagedPlace struct {
	Kind string `json:"kind"`
}

// EndOfRecords ends a stream that is complete.
type EndOfRecords struct {
	More bool `json:"more" doc:"There are more than were asked for"`
}
