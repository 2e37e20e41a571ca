package api

import (
	"time"

	"github.com/bulkhead-dev/sandbox/browser"
)

// A Browse says which browser the command line means: the session's, with flags
// that change its settings, which are for admins.
type Browse struct {
	Flags *Flags `json:"flags,omitempty"`
	Force bool   `json:"force,omitempty" doc:"Of stop: also when it is in use"`

	Target   string `json:"target,omitempty" maxlen:"8192" doc:"Of picture: an address, or the path of a file in the workspace"`
	Selector string `json:"selector,omitempty" maxlen:"4096" doc:"Of picture: only the first element that CSS selects so"`
	Full     bool   `json:"full,omitempty" doc:"Of picture: the whole page"`
	Width    int    `json:"width,omitempty" min:"0" max:"16384" doc:"Of picture: of the window, in CSS pixels; 1280 without"`
	Height   int    `json:"height,omitempty" min:"0" max:"16384" doc:"Of picture: of the window, in CSS pixels; 800 without"`
	JPEG     int    `json:"jpeg,omitempty" min:"0" max:"100" doc:"Of picture: the quality of a JPEG; a PNG without"`
}

// Shot returns the requested screenshot.
func (b Browse) Shot() browser.Shot {
	return browser.Shot{Selector: b.Selector, Full: b.Full, Width: b.Width, Height: b.Height, JPEG: b.JPEG}
}

// A BrowserStarted is a browser that runs.
type BrowserStarted struct {
	Name        string        `json:"name"`
	Version     string        `json:"version" doc:"As the browser says it"`
	Created     bool          `json:"created" doc:"The container was made for this request"`
	Ready       time.Duration `json:"readyNanos" doc:"Until the browser answered"`
	Sandbox     bool          `json:"sandbox" doc:"Chromium keeps its own sandbox"`
	Headless    bool          `json:"headless"`
	Network     string        `json:"network"`
	NotIsolated bool          `json:"notIsolated" doc:"A browser of the daemon's machine, which no sandbox surrounds"`
}

// A BrowserStopped says what was removed.
type BrowserStopped struct {
	Removed bool   `json:"removed" doc:"There was one"`
	Name    string `json:"name"`
}
