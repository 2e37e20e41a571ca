package egress

import (
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
)

// Protocol is how a program asked for a host.
type Protocol string

// The protocols of the proxy. Intercepted is a request that was read inside
// TLS, of a host to which a secret is bound.
const (
	ProtocolHTTP         Protocol = "http"
	ProtocolConnect      Protocol = "connect"
	ProtocolSOCKS5       Protocol = "socks5"
	ProtocolIntercepted  Protocol = "https"
	ProtocolHostListener Protocol = "door" // a connection to a [HostListener]
)

// Phase is the stage at which an Event was created.
type Phase string

// The phases. A refused request has a decision only. An allowed one has a
// decision before a byte of it passes, and an end.
const (
	PhaseDecision Phase = "decision"
	PhaseEnd      Phase = "end"
)

// An Event is one decision of the proxy, or the end of a request or tunnel
// that it allowed. Its texts are canonical or quoted: they hold printable
// ASCII and never a secret.
type Event struct {
	ID       uint64         `json:"id"` // equal for decision and end; unique in one Plane
	Phase    Phase          `json:"phase"`
	Time     time.Time      `json:"time"`
	Sandbox  string         `json:"sandbox"`
	Caller   string         `json:"caller,omitempty"` // id of the command, from the credentials; empty if there were none
	Protocol Protocol       `json:"protocol"`
	Method   string         `json:"method,omitempty"`
	Host     string         `json:"host"`           // canonical; quoted and cut if it has no canonical form
	Port     uint16         `json:"port,omitempty"` // 0 when unknown
	Path     string         `json:"path,omitempty"` // of plain or intercepted HTTP, without query, bounded
	Addr     netip.AddrPort `json:"addr,omitzero"`  // address that was dialled or refused
	Verdict  policy.Verdict `json:"verdict"`
	Rule     string         `json:"rule"`
	Message  string         `json:"message"`
	Hint     string         `json:"hint,omitempty"`
	Secrets  []string       `json:"secrets,omitempty"` // names of secrets that were put in

	// Of an end:
	Status   int           `json:"status,omitempty"`   // of the answer to an HTTP request
	BytesIn  int64         `json:"bytesIn,omitempty"`  // into the sandbox
	BytesOut int64         `json:"bytesOut,omitempty"` // out of it
	Duration time.Duration `json:"duration,omitempty"`
	Error    string        `json:"error,omitempty"` // why it ended early
}
