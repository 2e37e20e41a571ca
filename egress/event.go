package egress

import (
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
)

// Protocol is how a program asked for a host.
type Protocol string

// The protocols that the proxy speaks. Intercepted is a request that was read
// inside TLS, of a host to which a secret is bound.
const (
	ProtocolHTTP        Protocol = "http"
	ProtocolConnect     Protocol = "connect"
	ProtocolSOCKS5      Protocol = "socks5"
	ProtocolIntercepted Protocol = "https"
	ProtocolDoor        Protocol = "door" // a connection to a [Door]
)

// Phase says at which moment an Event was made.
type Phase string

// The phases. What is refused has a decision and nothing else. What is allowed
// has a decision before a byte of it passes, and an end.
const (
	PhaseDecision Phase = "decision"
	PhaseEnd      Phase = "end"
)

// An Event is one decision of the proxy, or the end of what it allowed. Its
// texts are canonical or quoted: they hold printable ASCII and never a secret.
type Event struct {
	ID       uint64         `json:"id"` // equal for decision and end; unique in one Plane
	Phase    Phase          `json:"phase"`
	Time     time.Time      `json:"time"`
	Sandbox  string         `json:"sandbox"`
	Caller   string         `json:"caller,omitempty"` // id of the command, from the credentials; empty when none came
	Protocol Protocol       `json:"protocol"`
	Method   string         `json:"method,omitempty"`
	Host     string         `json:"host"`           // canonical; quoted and cut when it could not be made so
	Port     uint16         `json:"port,omitempty"` // 0 when unknown
	Path     string         `json:"path,omitempty"` // of plain or intercepted HTTP, without query, bounded
	Addr     netip.AddrPort `json:"addr,omitzero"`  // that was dialled or refused
	Verdict  policy.Verdict `json:"verdict"`
	Rule     string         `json:"rule"`
	Message  string         `json:"message"`
	Hint     string         `json:"hint,omitempty"`
	Secrets  []string       `json:"secrets,omitempty"` // names of those that were put in

	// Of an end:
	Status   int           `json:"status,omitempty"`   // of the answer to an HTTP request
	BytesIn  int64         `json:"bytesIn,omitempty"`  // into the sandbox
	BytesOut int64         `json:"bytesOut,omitempty"` // out of it
	Duration time.Duration `json:"duration,omitempty"`
	Error    string        `json:"error,omitempty"` // why it ended early
}
