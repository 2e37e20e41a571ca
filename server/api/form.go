// This file holds the answers of the daemon about a page, for its handlers and
// for clients.

package api

import "github.com/bulkhead-dev/sandbox/browser"

// A BrowserAnswer is the result of an action; each action sets only its own
// fields.
type BrowserAnswer struct {
	Page     *browser.Page     `json:"page,omitempty" doc:"Of navigate"`
	Content  *browser.Content  `json:"content,omitempty" doc:"Of extract"`
	Download *browser.Download `json:"download,omitempty" doc:"Of download"`
	SHA256   []byte            `json:"sha256,omitempty" doc:"Of what was downloaded"`

	MIME   string `json:"mime,omitempty" doc:"Of data"`
	Data   []byte `json:"data,omitempty" doc:"Of screenshot and pdf"`
	Width  int    `json:"width,omitempty" doc:"Of a screenshot, in pixels"`
	Height int    `json:"height,omitempty" doc:"Of a screenshot, in pixels"`
}
