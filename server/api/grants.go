package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// CheckGrant asks what a call under a grant may do.
type CheckGrant struct {
	Grant    grant.Grant    `json:"grant" required:"true"`
	Line     []grant.Grant  `json:"line,omitempty" maxitems:"16" doc:"The grants that it was derived from, its parent first"`
	Manifest grant.Manifest `json:"manifest" required:"true"`
}

// Operate asks for one operation under a grant.
type Operate struct {
	Grant     grant.Grant     `json:"grant" required:"true"`
	Line      []grant.Grant   `json:"line,omitempty" maxitems:"16"`
	Manifest  grant.Manifest  `json:"manifest" required:"true"`
	Operation grant.Operation `json:"operation" required:"true"`
	Data      []byte          `json:"data,omitempty" maxlen:"12582912" doc:"What is written, and the body of a request"`
	KeepBytes int64           `json:"keepBytes,omitempty" min:"0" max:"16777216" doc:"How much of the output is handed back"`
}

// Revoked lists the tokens that are no longer valid.
type Revoked struct {
	Revoked []string `json:"revoked"`
}

// CreateToken asks for a token with at most the caller's rights.
type CreateToken struct {
	Role       string         `json:"role" required:"true" enum:"admin,tenant,session"`
	Tenant     string         `json:"tenant,omitempty" maxlen:"64"`
	Agent      string         `json:"agent,omitempty" maxlen:"64" doc:"The one that the token is bound to; without, that of the token that it is made from, or of the request. A token for a tenant is for all of its agents where neither names one"`
	Session    string         `json:"session,omitempty" maxlen:"256" doc:"Of the agent"`
	TTLSeconds int64          `json:"ttlSeconds,omitempty" min:"0" max:"315360000" doc:"0 is as long as the token that it is made from, and 90 days where there is none or that has no end"`
	Endless    bool           `json:"endless,omitempty" doc:"Good until it is taken back, instead of ttlSeconds; not for one session, nor where the token that it is made from has an end"`
	Quota      *tenant.Limits `json:"quota,omitempty"`
	Budget     *TokenBudget   `json:"budget,omitempty" doc:"What may be used in all with the token and all that are made from it; without, the caller's own"`
	Note       string         `json:"note,omitempty" maxlen:"256"`
	Parent     string         `json:"parent,omitempty" maxlen:"64" doc:"Made from this token, which is the caller's own or below it, or any for admins; the caller's own without"`
}

// A TokenBudget bounds what is used with a token in its lifetime. An absent
// field is as in the caller's own budget, or unbounded; 0 allows nothing.
type TokenBudget struct {
	Calls    *int64 `json:"calls,omitempty" min:"0" doc:"Commands, lines, calls of tools and operations"`
	BytesIn  *int64 `json:"bytesIn,omitempty" min:"0" doc:"Bytes that come out of sandboxes to the caller"`
	BytesOut *int64 `json:"bytesOut,omitempty" min:"0" doc:"Bytes that the caller gives to sandboxes"`
	CPUMs    *int64 `json:"cpuMs,omitempty" min:"0" doc:"Milliseconds of processor time"`
	GPUMs    *int64 `json:"gpuMs,omitempty" min:"0" doc:"Milliseconds of a GPU, which cannot be counted: with a bound nothing runs in sandboxes that have one"`
	Files    *int64 `json:"files,omitempty" min:"0" doc:"Files that are written"`
	WallMs   *int64 `json:"wallMs,omitempty" min:"0" doc:"Milliseconds that calls take"`
}

// Under returns the budget with absent fields taken from that of the caller,
// which is nil where it has none. For a nil budget it returns nil: a token gets
// its parent's then.
func (b *TokenBudget) Under(own *grant.Budget) *grant.Budget {
	if b == nil {
		return nil
	}
	const no = grant.Unlimited
	out := grant.Budget{Calls: no, BytesIn: no, BytesOut: no, CPUMs: no, GPUMs: no, Files: no, WallMs: no}
	if own != nil {
		out = *own
	}
	for _, f := range []struct{ to, from *int64 }{
		{&out.Calls, b.Calls}, {&out.BytesIn, b.BytesIn}, {&out.BytesOut, b.BytesOut}, {&out.CPUMs, b.CPUMs},
		{&out.GPUMs, b.GPUMs}, {&out.Files, b.Files}, {&out.WallMs, b.WallMs},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return &out
}

// A NewToken is a token that was made. No other answer contains the secret.
type NewToken struct {
	Secret string `json:"secret"`
	Token
}

// A Token describes a bearer token, without its secret.
type Token struct {
	ID      string    `json:"id"`
	Role    string    `json:"role" enum:"admin,tenant,session"`
	Tenant  string    `json:"tenant,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Session string    `json:"session,omitempty"`
	Parent  string    `json:"parent,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Note    string    `json:"note,omitempty"`
	Refused string    `json:"refused,omitempty" doc:"Why it is not good any more"`

	Quota  *tenant.Limits `json:"quota,omitempty" doc:"What bounds all that is held with it"`
	Budget *budget.Amount `json:"budget,omitempty" doc:"What bounds all that is used with it"`
}

// A TokenList holds the tokens below the caller's own.
type TokenList struct {
	Items   []Token  `json:"items"`
	Damaged []string `json:"damaged,omitempty" doc:"Files that hold no token that can be read; for admins"`
}
