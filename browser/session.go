package browser

import (
	"context"
	"time"
)

// A Session is a clean profile in a browser: nothing of another session is in
// it, and nothing of it is left when it has ended. It has one page. Its methods
// are safe for concurrent use and take turns.
//
// What pages say is untrusted: texts, titles, addresses and pictures are
// theirs, bounded and otherwise as they came.
type Session interface {
	Reader
	Writer

	// Close ends the page and forgets the profile.
	Close() error
}

// A Reader looks at pages. It changes nothing but what a visit changes.
type Reader interface {
	// Navigate opens an address and waits until it has loaded. Addresses are
	// http and https ones, others where settings allow them, and paths of
	// files in the workspace as package visit spells them. What no rule
	// allows, a redirect included, is [sandbox.CodeCapabilityBlocked]; a page
	// beyond its limits is [sandbox.CodeBudgetExceeded].
	Navigate(ctx context.Context, address string) (Page, error)

	// Screenshot takes a picture. More pixels or pictures than the limits let
	// are [sandbox.CodeBudgetExceeded].
	Screenshot(ctx context.Context, o Shot) (Picture, error)

	// Extract tells what is on the page.
	Extract(ctx context.Context, o Extraction) (Content, error)

	// PDF prints the page.
	PDF(ctx context.Context) ([]byte, error)

	// Wait returns when something is so, [sandbox.CodeTimeout] when it is not
	// in time.
	Wait(ctx context.Context, c Condition) error
}

// A Writer does what has effects. Without [Rights.Write] everything is
// [sandbox.CodePermissionDeny]. Selectors are those of CSS; one that matches
// nothing is [sandbox.CodeNotFound].
type Writer interface {
	Click(ctx context.Context, selector string) error
	Type(ctx context.Context, selector, text string) error

	// Upload gives files of the workspace to a file input. A link on the way
	// to one, even one that stays inside, is [sandbox.CodeCapabilityBlocked].
	Upload(ctx context.Context, selector string, files []string) error

	// Download clicks, and puts what is downloaded then into a folder of the
	// workspace. Where settings allow no downloads it is
	// [sandbox.CodeCapabilityBlocked].
	Download(ctx context.Context, selector, folder string) (Download, error)
}

// A Page is what a navigation came to.
type Page struct {
	URL       string   `json:"url"`            // in the end
	Status    int64    `json:"status"`         // of HTTP; 0 for what is none
	MIME      string   `json:"mime,omitempty"` // as the answer says, type/subtype
	Title     string   `json:"title"`
	Redirects []string `json:"redirects,omitempty"` // addresses passed on the way, oldest first
	Bytes     int64    `json:"bytes"`               // received
}

// A Shot says what a picture shows. Without Selector and Full it is what fits
// into the window.
type Shot struct {
	Selector string // the first element that matches
	Full     bool   // the whole page
	Width    int    // of the window, in CSS pixels; 0 is 1280
	Height   int    // of the window, in CSS pixels; 0 is 800
	JPEG     int    // quality from 1 to 100; 0 is PNG
}

// A Picture is a screenshot.
type Picture struct {
	Data          []byte `json:"-"`
	MIME          string `json:"mime"`
	Width, Height int    // in pixels
}

// An Extraction says what is wanted of a page, and how much of it.
type Extraction struct {
	Text, Links, Tree bool
	Selector          string // of the first element whose text is meant; empty is the page
	MaxText           int    // bytes; 0 is 256 KiB
	MaxLinks          int    // 0 is 500
	MaxNodes          int    // of the tree; 0 is 2000
}

// Content is what is on a page.
type Content struct {
	URL       string `json:"url"`
	Title     string `json:"title"`
	Text      string `json:"text,omitempty"`
	Links     []Link `json:"links,omitempty"`
	Tree      []Node `json:"tree,omitempty"` // in document order
	Truncated bool   `json:"truncated,omitempty"`
}

// A Link is one that can be followed.
type Link struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// A Node is one of the accessibility tree.
type Node struct {
	Depth int    `json:"depth"`
	Role  string `json:"role"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// A Condition is what is waited for: exactly one of the first three.
type Condition struct {
	Visible string // selector of an element that is shown
	Gone    string // selector of which nothing is left
	Text    string // that is on the page

	Timeout time.Duration // 0 is the limit of a navigation
}

// A Download is a file that came into the workspace.
type Download struct {
	Path string `json:"path"` // in the workspace, relative
	Size int64  `json:"size"` // bytes
	URL  string `json:"url"`
	Sum  []byte `json:"-"` // SHA-256 of the content
}
