// Package desk brings up the browser of a scope and does with it what a
// request says: keeps it ready, lets clients and people in, opens sessions,
// and takes it away. Its words are those of package order.
package desk

import "github.com/bulkhead-dev/sandbox/browser/desk/order"

// What is asked, and what comes of it. See package order.
type (
	Request = order.Request
	Started = order.Started
	Served  = order.Served
	Watched = order.Watched
	Folders = order.Folders
)
