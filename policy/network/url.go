// The url files decide which addresses a browser may open.
//
// An address is parsed once. [Rules.Judge] returns the one spelling that is
// opened, shown and logged, so that no other code parses the text again and
// differently. [Rules.Hop] judges every hop of a redirect and every document
// of a frame anew. The package opens nothing and resolves no names.
//
// A file of the workspace is written ./PATH, workspace:PATH or
// /workspace/PATH, where PATH is taken literally: no escapes, no query. Text
// without a scheme is such a PATH too if it cannot be read as a host: its
// first segment has no dot in it, or it is a single name that ends as pages do
// (.html and the like).

package network

import (
	"slices"

	"github.com/bulkhead-dev/sandbox"
)

// Host is the host that stands for the workspace in a browser. Its domain is
// reserved and never resolves; the program that drives the browser answers
// requests for it, and they reach no network.
const WorkspaceHost = "workspace.invalid"

// Origin is the origin of every file of the workspace in a browser.
const WorkspaceOrigin = "http://" + WorkspaceHost

// The longest addresses, in bytes.
const (
	maxAddress = 16 << 10
	maxData    = 2 << 20 // of a data: address, which holds its document
)

// A Kind says where a document comes from.
type addressKind string

// The kinds of address.
const (
	Web       addressKind = "web"       // http or https
	Workspace addressKind = "workspace" // a file of the workspace
	Data      addressKind = "data"      // the address holds the document
	Blank     addressKind = "blank"     // about:blank
)

// An Address is one that may be opened.
type Address struct {
	Kind addressKind
	URL  string // what the browser opens
	File string // of the workspace: slash-separated and relative, without "." and ".."
}

// Options are the settings.
type RuleOptions struct {
	Schemes []string // of http, https and data, those that may be opened
	Policy  *Policy  // judges hosts; nil allows none
	// Direct is for a browser with a network of the engine, which no rule
	// guards: hosts need no rule that allows them. What rules deny stays denied.
	Direct bool
}

// Rules judge addresses. They do not change, so they are safe for concurrent
// use.
type Rules struct {
	schemes []string
	policy  *Policy
	direct  bool
}

// New makes Rules. A scheme other than http, https and data is
// [sandbox.CodeValidation].
func NewRules(o RuleOptions) (*Rules, error) {
	for _, s := range o.Schemes {
		if s != "http" && s != "https" && s != "data" {
			return nil, &sandbox.Error{
				Code: sandbox.CodeValidation, Op: "judge address", Field: "schemes", Resource: s,
				Message: "no browser is let open " + quotedText(s) + " addresses", Hint: "use http, https or data",
			}
		}
	}
	return &Rules{schemes: slices.Clone(o.Schemes), policy: o.Policy, direct: o.Direct}, nil
}

// Judge reads what a caller wants to open. What is malformed is
// [sandbox.CodeValidation], what may not be opened
// [sandbox.CodeCapabilityBlocked]; the error names rule and host.
func (r *Rules) Judge(address string) (Address, error) {
	if err := legible(address); err != nil {
		return Address{}, err
	}
	if file, ok := spelledAsFile(address); ok {
		return workspaceFile(file)
	}
	scheme, rest, ok := cutScheme(address)
	if !ok {
		return bare(address)
	}
	return r.absolute(address, scheme, rest, false)
}

// Hop judges an address that a page, a frame or a redirect goes to, as the
// browser spells it. Files of the workspace are allowed here as far as they
// are well spelled; whether the page may see them is the caller's to decide.
func (r *Rules) Hop(address string) (Address, error) {
	if err := legible(address); err != nil {
		return Address{}, err
	}
	scheme, rest, ok := cutScheme(address)
	if !ok {
		return Address{}, malformed("the address has no scheme", "")
	}
	return r.absolute(address, scheme, rest, true)
}

// absolute judges an address with a scheme.
func (r *Rules) absolute(address, scheme, rest string, hop bool) (Address, error) {
	switch scheme {
	case "http", "https":
		return r.web(scheme, rest, hop)
	case "data":
		if !slices.Contains(r.schemes, scheme) {
			return Address{}, blocked("data:", "data: addresses are not allowed", "have browser.allowDataUrls allow them")
		}
		return Address{Kind: Data, URL: "data:" + rest}, nil
	case "about":
		if rest == "blank" || hop && rest == "srcdoc" {
			return Address{Kind: Blank, URL: "about:" + rest}, nil
		}
	case "file":
		return Address{}, blocked("file:", "files are not opened by file: addresses", "name a file of the workspace as ./PATH")
	}
	if looksLikeHost(scheme) {
		return Address{}, malformed("the address has no scheme", "write https://"+bound(address))
	}
	return Address{}, blocked(scheme+":", "a browser is not let open "+quotedText(scheme)+" addresses", "use "+r.wanted()+" addresses")
}

// wanted names the schemes for a hint.
func (r *Rules) wanted() string {
	if slices.Contains(r.schemes, "http") {
		return "http and https"
	}
	return "https"
}
