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
	Watch bool `json:"watch,omitempty" doc:"Make a link to look at it, where the settings allow that"`
	CDP   bool `json:"cdp,omitempty" doc:"Make an address for the DevTools protocol, where the settings allow that"`
}

// A BrowserList holds the browsers of a session.
type BrowserList struct {
	Items []Browser `json:"items"`
}
