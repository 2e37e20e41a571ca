package api

import "time"

// A Browser is the browser of a session.
type Browser struct {
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"createdAt"`
	WatchURL  string    `json:"watchUrl,omitempty" doc:"For a person to look at it; works once"`
	CDPURL    string    `json:"cdpUrl,omitempty" doc:"For programs that speak the DevTools protocol"`
}

// StartBrowser says how to start it.
type StartBrowser struct {
	Display bool `json:"display,omitempty" doc:"With a display that can be shown. Where the settings have none it takes an admin"`
	Watch   bool `json:"watch,omitempty" doc:"Make a link to look at it, where the settings allow that"`
	CDP     bool `json:"cdp,omitempty" doc:"Make an address for the DevTools protocol, where the settings allow that"`
}

// A DisplayStart is the first frame of the WebSocket that shows the display of a
// browser. What follows are the bytes of the protocol of VNC.
type DisplayStart struct {
	Password string `json:"password" doc:"Of the display, which takes no input"`
}

// A BrowserList holds the browsers of a session.
type BrowserList struct {
	Items []Browser `json:"items"`
}
