package api

// A WrittenFile is what a write came to.
type WrittenFile struct {
	Path    string `json:"path" doc:"Absolute, inside"`
	Size    int64  `json:"size" doc:"Bytes"`
	ETag    string `json:"etag" doc:"Of the content that was written"`
	Created bool   `json:"created" doc:"Nothing of that name was there before"`
}

// An UnpackedArchive is what an archive came to.
type UnpackedArchive struct {
	Path    string    `json:"path" doc:"The folder that it was unpacked in"`
	Files   int64     `json:"files"`
	Folders int64     `json:"folders"`
	Links   int64     `json:"links"`
	Bytes   int64     `json:"bytes" doc:"Content of files"`
	Left    []LeftOut `json:"left" doc:"What was not taken along, and why"`
}

// A LeftOut is an entry of an archive that was not taken along.
type LeftOut struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}
