package api

import "time"

// A File describes a file or folder.
type File struct {
	Path       string    `json:"path" doc:"Absolute, inside"`
	Name       string    `json:"name"`
	Type       string    `json:"type" enum:"file,dir,symlink,other"`
	Size       int64     `json:"size" doc:"Bytes"`
	Mode       string    `json:"mode" doc:"Permissions in octal, such as 0644"`
	ModifiedAt time.Time `json:"modifiedAt"`
	Target     string    `json:"target,omitempty" doc:"Of a symlink, as it says"`
	ETag       string    `json:"etag,omitempty"`
}

// A FileList is a page of a folder's entries, ordered by name.
type FileList struct {
	Items []File `json:"items"`
	Next  string `json:"next,omitempty"`
}

// MoveFile renames an entry within the sandbox.
type MoveFile struct {
	From      string `json:"from" required:"true" maxlen:"4096"`
	To        string `json:"to" required:"true" maxlen:"4096"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

// MakeFolder makes a folder.
type MakeFolder struct {
	Path    string `json:"path" required:"true" maxlen:"4096"`
	Parents bool   `json:"parents,omitempty" doc:"Make those above it, and be content with one that is there"`
	Mode    string `json:"mode,omitempty" maxlen:"4" doc:"Its permissions in octal; 0755 without"`
}

// MakeLink makes a symbolic link.
type MakeLink struct {
	Path   string `json:"path" required:"true" maxlen:"4096" doc:"Where nothing may be yet"`
	Target string `json:"target" required:"true" maxlen:"4096" doc:"What the link says; it is not looked at"`
}

// Glob finds files by their names.
type Glob struct {
	Pattern string `json:"pattern" required:"true" maxlen:"4096" doc:"With ** for any number of folders"`
	Path    string `json:"path,omitempty" maxlen:"4096" doc:"Where to begin; the workspace without"`
	Limit   int    `json:"limit,omitempty" min:"0" max:"10000"`
}

// A GlobResult holds the paths that match.
type GlobResult struct {
	Paths []string `json:"paths"`
	More  bool     `json:"more" doc:"There are more than were asked for"`
}

// Names of the events of a watch.
const (
	EventChange   = "change"   // data is a [Change]
	EventNote     = "note"     // data is a [WatchNote]
	EventOverflow = "overflow" // data is a [WatchNote]
)

// A Change is one change in a watched folder, or below it.
type Change struct {
	Kind       string    `json:"kind" enum:"create,write,remove,rename,chmod" doc:"chmod: the mode, the owner or the times"`
	Name       string    `json:"name" doc:"The entry, relative to the watched folder; . is that folder"`
	To         string    `json:"to,omitempty" doc:"Of a rename: the new name, relative to the watched folder; it is missing where the entry has left what is watched"`
	Path       string    `json:"path" doc:"The entry inside, absolute"`
	Type       string    `json:"type,omitempty" enum:"file,dir,symlink,other" doc:"It is missing, as what follows, where the entry was gone before it was looked at"`
	Mode       string    `json:"mode,omitempty" doc:"Permissions in octal, such as 0644"`
	Size       int64     `json:"size"`
	ModifiedAt time.Time `json:"modifiedAt,omitzero"`
}

// A WatchNote says what a watch cannot see, or has not seen.
type WatchNote struct {
	Code    string `json:"code" doc:"As in problems: SANDBOX.UNSUPPORTED for a watch that polls, QUOTA.BUDGET_EXCEEDED at a bound, SANDBOX.CAPABILITY_BLOCKED for a closed folder"`
	Name    string `json:"name,omitempty" doc:"The folder that it concerns, relative to the watched one"`
	Message string `json:"message"`
}

// StageMedia asks for files from outside to be copied into the workspace.
type StageMedia struct {
	Refs []string `json:"refs" required:"true" maxitems:"64" doc:"Paths in the configured folders, or addresses of configured hosts"`
}

// StagedMedia says where the copies are.
type StagedMedia struct {
	Items []StagedFile `json:"items"`
}

// A StagedFile is one file that was copied.
type StagedFile struct {
	Ref    string `json:"ref"`
	Path   string `json:"path" doc:"Inside"`
	Size   int64  `json:"size"`
	MIME   string `json:"mime,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}
