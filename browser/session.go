package browser

import (
	"context"
	"time"
)

// A Session is a clean profile with one page in a browser: it shares nothing
// with other sessions, and nothing of it is left after it has ended. Its
// methods are safe for concurrent use and run one at a time.
//
// The content of pages is untrusted: texts, titles, URLs and pictures are
// bounded but otherwise unchanged.
type Session interface {
	Reader
	Writer

	// Close closes the page and removes the profile.
	Close() error
}

// A Reader reads pages. It changes nothing but what a visit changes.
type Reader interface {
	// Navigate opens an address and waits until the page has loaded. Addresses
	// are http and https URLs, other schemes where settings allow them, and
	// paths of workspace files in the spelling of the URL policy. The error is
	// [sandbox.CodeCapabilityBlocked] if no rule allows the address or a
	// redirect, and [sandbox.CodeBudgetExceeded] if the page is beyond its
	// limits.
	Navigate(ctx context.Context, address string) (Page, error)

	// Screenshot takes a picture. The error is [sandbox.CodeBudgetExceeded] if
	// the limits allow fewer pixels or pictures.
	Screenshot(ctx context.Context, o Shot) (Picture, error)

	// Extract returns the content of the page.
	Extract(ctx context.Context, o Extraction) (Content, error)

	// PDF returns the page as a PDF document.
	PDF(ctx context.Context) ([]byte, error)

	// Wait returns when the condition is met. The error is
	// [sandbox.CodeTimeout] if it is not met in time.
	Wait(ctx context.Context, c Condition) error
}

// A Writer has the actions with effects. Without [Rights.Write] all return
// [sandbox.CodePermissionDeny]. Selectors are CSS selectors; one that matches
// nothing is [sandbox.CodeNotFound].
type Writer interface {
	Click(ctx context.Context, selector string) error
	Type(ctx context.Context, selector, text string) error

	// Upload sets files of the workspace in a file input. A symbolic link on
	// the path of one, even one that stays inside the workspace, is
	// [sandbox.CodeCapabilityBlocked].
	Upload(ctx context.Context, selector string, files []string) error

	// Download clicks the element and stores the resulting download in a
	// folder of the workspace. Where settings allow no downloads, the error is
	// [sandbox.CodeCapabilityBlocked].
	Download(ctx context.Context, selector, folder string) (Download, error)
}

// A Page is the result of a navigation.
type Page struct {
	URL       string   `json:"url"`            // after redirects
	Status    int64    `json:"status"`         // of HTTP; 0 for other schemes
	MIME      string   `json:"mime,omitempty"` // as the response says, type/subtype
	Title     string   `json:"title"`
	Redirects []string `json:"redirects,omitempty"` // oldest first
	Bytes     int64    `json:"bytes"`               // received
}

// A Shot says what a picture shows. Without Selector and Full it shows the
// window.
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

// An Extraction says what to read from a page, and how much of it.
type Extraction struct {
	Text, Links, Tree bool
	Selector          string // of the element whose text is read; empty is the page
	MaxText           int    // bytes; 0 is 256 KiB
	MaxLinks          int    // 0 is 500
	MaxNodes          int    // of the tree; 0 is 2000
}

// Content is the content of a page.
type Content struct {
	URL       string `json:"url"`
	Title     string `json:"title"`
	Text      string `json:"text,omitempty"`
	Links     []Link `json:"links,omitempty"`
	Tree      []Node `json:"tree,omitempty"` // in document order
	Truncated bool   `json:"truncated,omitempty"`
}

// A Link is a link of a page.
type Link struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// A Node is a node of the accessibility tree.
type Node struct {
	Depth int    `json:"depth"`
	Role  string `json:"role"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// A Condition is a state to wait for: exactly one of the first three fields is
// set.
type Condition struct {
	Visible string // selector that matches a visible element
	Gone    string // selector that matches nothing
	Text    string // text of the page

	Timeout time.Duration // 0 is the limit of a navigation
}

// A Download is a file stored in the workspace.
type Download struct {
	Path string `json:"path"` // in the workspace, relative
	Size int64  `json:"size"` // bytes
	URL  string `json:"url"`
	Sum  []byte `json:"-"` // SHA-256 of the content
}
