// Package desk brings up the browser of a scope and does with it what a
// request says: keeps it ready, lets clients and people in, opens sessions,
// and takes it away. Its words are those of package words.
package desk

import "github.com/bulkhead-dev/sandbox/browser/desk/words"

// What is asked, and what comes of it. See package words.
type (
	Request = words.Request
	Started = words.Started
	Served  = words.Served
	Watched = words.Watched
	Folders = words.Folders
)
