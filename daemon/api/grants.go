package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox/budget"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/tenant/quota"
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

// Revoked says which tokens are no good any more.
type Revoked struct {
	Revoked []string `json:"revoked"`
}

// CreateToken asks for a token with less than the caller has, or as much.
type CreateToken struct {
	Role       string        `json:"role" required:"true" enum:"admin,tenant,session"`
	Tenant     string        `json:"tenant,omitempty" maxlen:"64"`
	Agent      string        `json:"agent,omitempty" maxlen:"64"`
	Session    string        `json:"session,omitempty" maxlen:"256"`
	TTLSeconds int64         `json:"ttlSeconds,omitempty" min:"0" max:"315360000" doc:"0 is as long as the caller's own"`
	Quota      *quota.Limits `json:"quota,omitempty"`
	Note       string        `json:"note,omitempty" maxlen:"256"`
	Parent     string        `json:"parent,omitempty" maxlen:"64" doc:"Made from this token, which is the caller's own or below it, or any for admins; the caller's own without"`
}

// A NewToken is one that was made. The secret is shown this once.
type NewToken struct {
	Secret string `json:"secret"`
	Token
}

// A Token is a bearer token, without what makes it one.
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

	Quota  *quota.Limits  `json:"quota,omitempty" doc:"What bounds all that is held with it"`
	Budget *budget.Amount `json:"budget,omitempty" doc:"What bounds all that is used with it"`
}

// A TokenList holds the tokens below the caller's own.
type TokenList struct {
	Items   []Token  `json:"items"`
	Damaged []string `json:"damaged,omitempty" doc:"Files that hold no token that can be read; for admins"`
}
