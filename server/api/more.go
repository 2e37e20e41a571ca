package api

import (
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// A WrittenFile is the result of a write.
type WrittenFile struct {
	Path    string `json:"path" doc:"Absolute, inside"`
	Size    int64  `json:"size" doc:"Bytes"`
	ETag    string `json:"etag" doc:"Of the content that was written"`
	Created bool   `json:"created" doc:"Nothing of that name was there before"`
}

// An UnpackedArchive is the result of unpacking an archive.
type UnpackedArchive struct {
	Path    string    `json:"path" doc:"The folder that it was unpacked in"`
	Files   int64     `json:"files"`
	Folders int64     `json:"folders"`
	Links   int64     `json:"links"`
	Bytes   int64     `json:"bytes" doc:"Content of files"`
	Left    []LeftOut `json:"left" doc:"What was not taken along, and why"`
}

// A LeftOut is an entry of an archive that was not extracted.
type LeftOut struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// EventReady begins a watch; data is a [WatchReady].
const EventReady = "ready"

// A WatchReady says that the first scan is complete.
type WatchReady struct {
	Entries int  `json:"entries" doc:"How many there are, as far as the watch sees"`
	Polls   bool `json:"polls,omitempty" doc:"The watch looks about once a second and is not notified, so that it misses what comes and goes in between, and a rename is a remove and a create; a note follows"`
}

// An EvidenceReport says whether records are unchanged since they were written.
type EvidenceReport struct {
	OK     bool            `json:"ok"`
	Keys   []EvidenceKey   `json:"keys" doc:"Whose signatures count"`
	Chains []EvidenceChain `json:"chains"`
}

// An EvidenceKey is the public part of a signing key.
type EvidenceKey struct {
	ID     string `json:"id"`
	Public string `json:"public" doc:"In base64"`
}

// An EvidenceChain is the report on the records of one tenant.
type EvidenceChain struct {
	OK          bool            `json:"ok"`
	Tenant      string          `json:"tenant"`
	Folder      string          `json:"folder" doc:"Below that of all records"`
	Old         bool            `json:"old" doc:"From before each tenant had records of its own, without signatures"`
	Files       int             `json:"files"`
	Records     int64           `json:"records" doc:"That are as they were written"`
	Dropped     uint64          `json:"dropped" doc:"Files before the first, which rotation took away"`
	Checkpoints int64           `json:"checkpoints"`
	Signed      *EvidencePlace  `json:"signed,omitempty" doc:"The last place that counts as signed"`
	Unsigned    int64           `json:"unsigned" doc:"Records behind it, which only hashes hold"`
	Torn        int             `json:"torn" doc:"Writes that did not come to their end; no damage"`
	Damage      []EvidenceFault `json:"damage"`
	Omitted     int             `json:"omitted" doc:"How much more damage there is"`
	First       EvidenceLine    `json:"first" doc:"Where the records begin"`
	Last        EvidenceLine    `json:"last" doc:"Where they end"`
	Keys        []string        `json:"keys" doc:"Ids of all keys that sign there, good or not"`
	Broken      *EvidenceBroken `json:"broken,omitempty" doc:"The first record that is not as it was written"`
}

// An EvidenceLine identifies one record by its number and hash.
type EvidenceLine struct {
	File string `json:"file,omitempty"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// An EvidenceBroken names a record that was changed after it was written. Its
// own fields may be false.
type EvidenceBroken struct {
	EvidenceFault
	ID   string `json:"id" doc:"Of an operation or run"`
	Type string `json:"type"`
}

// An EvidencePlace is a line of the records that was signed.
type EvidencePlace struct {
	File    string `json:"file,omitempty"`
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
	Records uint64 `json:"records"`
	Key     string `json:"key"`
}

// An EvidenceFault is a place in the records that was changed after it was
// written.
type EvidenceFault struct {
	Kind   string `json:"kind"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Offset int64  `json:"offset"`
	Seq    uint64 `json:"seq,omitempty"`
	Detail string `json:"detail"`
}

// An OperationRecord is one operation: its begin and its end, as in package
// evidence.
type OperationRecord struct {
	ID     string          `json:"id"`
	Status string          `json:"status" enum:"ok,denied,error,aborted,open" doc:"open is one without an end"`
	Begin  json.RawMessage `json:"begin,omitempty"`
	End    json.RawMessage `json:"end,omitempty"`
}

// An OperationList is a page of the records, the newest first.
type OperationList struct {
	Operations []OperationRecord `json:"operations"`
	More       bool              `json:"more"`
	Damaged    int               `json:"damaged"`
}

// A Performed is the result of an operation under a grant, also of one that was
// refused or has failed.
type Performed struct {
	ID        string          `json:"id" doc:"Of the operation, in the evidence"`
	OK        bool            `json:"ok"`
	Code      sandbox.Code    `json:"code,omitempty"`
	Field     string          `json:"field,omitempty" doc:"Of what was handed in, where it is malformed"`
	Message   string          `json:"message,omitempty"`
	Retryable bool            `json:"retryable,omitempty"`
	Output    json.RawMessage `json:"output" doc:"As package operation has it"`
	Used      grant.Budget    `json:"used"`
	Duration  int64           `json:"durationNs"`
	Profile   string          `json:"profileHash,omitempty"`
	Sandbox   string          `json:"sandbox,omitempty"`
}

// DeriveGrant asks for a grant with less than another one.
type DeriveGrant struct {
	Grant grant.Grant   `json:"grant" required:"true"`
	Line  []grant.Grant `json:"line,omitempty" maxitems:"16"`

	ID           string             `json:"id,omitempty" maxlen:"256" doc:"Of the new grant; a random one without"`
	Call         string             `json:"call" required:"true" maxlen:"256" doc:"The tool call that it serves"`
	DecisionKey  string             `json:"decisionKeyFingerprint" required:"true" maxlen:"256" doc:"Of the decision to derive it"`
	Agent        string             `json:"agent,omitempty" maxlen:"64" doc:"Who gets it"`
	Capabilities []grant.Capability `json:"capabilities,omitempty" maxitems:"1024" doc:"All of the parent's without"`
	Budget       *grant.Budget      `json:"budget,omitempty" doc:"All of the parent's without"`
	Expires      time.Time          `json:"expires,omitzero" doc:"With the parent without"`
}

// DerivedGrant is the new grant, and the grants from which it was derived.
type DerivedGrant struct {
	Grant grant.Grant   `json:"grant"`
	Line  []grant.Grant `json:"line" doc:"Its parent first"`
}

// HeaderTerminal names a terminal that outlives its client, in the answer to the
// client that opens it.
const HeaderTerminal = "Sandbox-Terminal"

// A Terminal is one that outlives its client.
type Terminal struct {
	ID        string    `json:"id"`
	State     string    `json:"state" enum:"running,ended,failed"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Bytes     int64     `json:"bytes" doc:"Of output in all"`
}

// A TerminalList holds the terminals of a session.
type TerminalList struct {
	Items []Terminal `json:"items"`
}

// DriveBrowser has the parameters of a browser's actions; each action uses only
// its own.
type DriveBrowser struct {
	URL            string   `json:"url,omitempty" maxlen:"8192" doc:"Of navigate: the address, or the path of a file in the workspace"`
	Selector       string   `json:"selector,omitempty" maxlen:"4096" doc:"An element, as CSS selects it"`
	Text           string   `json:"text,omitempty" maxlen:"524288" doc:"Of type: what is typed. Of wait: what has to be on the page"`
	Gone           bool     `json:"gone,omitempty" doc:"Of wait: until nothing matches the selector"`
	Full           bool     `json:"full,omitempty" doc:"Of screenshot: the whole page"`
	Parts          []string `json:"parts,omitempty" maxitems:"3" enum:"text,links,tree" doc:"Of extract: what is wanted; the text without"`
	Files          []string `json:"files,omitempty" maxitems:"32" maxlen:"4096" doc:"Of upload: files of the workspace"`
	Path           string   `json:"path,omitempty" maxlen:"4096" doc:"Of download: the folder of the workspace into which the file goes"`
	TimeoutSeconds int      `json:"timeoutSeconds,omitempty" min:"0" max:"150" doc:"Of wait"`
	Width          int      `json:"width,omitempty" min:"0" max:"16384" doc:"Of screenshot: of the window, in CSS pixels; 1280 without"`
	Height         int      `json:"height,omitempty" min:"0" max:"16384" doc:"Of screenshot: of the window, in CSS pixels; 800 without"`
	JPEG           int      `json:"jpeg,omitempty" min:"0" max:"100" doc:"Of screenshot: the quality of a JPEG; a PNG without"`
	MaxText        int      `json:"maxText,omitempty" min:"0" max:"16777216" doc:"Of extract: the most bytes of text; 256 KiB without"`
	MaxLinks       int      `json:"maxLinks,omitempty" min:"0" max:"20000" doc:"Of extract: the most links; 500 without"`
	MaxNodes       int      `json:"maxNodes,omitempty" min:"0" max:"50000" doc:"Of extract: the most nodes of the tree; 2000 without"`
}

// A CheckedGrant says what a call may do.
type CheckedGrant struct {
	Hash    string          `json:"profileHash" doc:"Of what is allowed, without what is of this call alone"`
	Profile json.RawMessage `json:"profile" doc:"As package grant has it: a list that is null says nothing, and an empty one allows nothing"`
}
