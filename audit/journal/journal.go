// Package journal keeps records in append-only files that show tampering.
//
// A journal is a folder. Each record is one line of JSON that contains the
// SHA-256 of the previous line, and its own over that hash and its bytes. Files
// rotate by size; each begins with a header that is a link of the same chain
// and names the end of the previous file and the oldest file that is still
// kept. So [Journal.Verify] distinguishes files that rotation dropped from
// files that were removed by other means, and finds changed, missing, moved and
// truncated lines. The small file "head" records where the journal ends: an
// append costs the same however large the journal is, and a truncation at the
// end is detected.
//
// The chain detects accidental changes and changes by a writer who does not
// know the format of the journal. It has no key: a process with write access to
// the folder can rewrite all of it consistently. Keep the hash that Verify
// reports in another place to compare it later.
//
// Any number of processes and goroutines may use one journal. Writers take
// turns by flock(2) on a file that is never unlinked; the kernel releases the
// lock when the process ends. A batch of records is one write(2). A process
// that is killed during the write leaves a torn line: complete records before
// it count, and the next append writes a line that says how many bytes are not
// records. On a full disk no part of a batch stays. Readers hold the lock only
// while they open the files, and see the journal as it was then.
package journal

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// format is the version of the file layout.
const format = 1

// The defaults and bounds of Options.
const (
	DefaultMaxFile  = 4 << 20  // bytes
	DefaultMaxTotal = 32 << 20 // bytes
	minFile         = 64 << 10 // bytes
	maxFiles        = 256
)

// Options say how large a journal may become and how safe its records are.
// Programs that share a journal should open it with the same ones; those of
// the writer at hand count.
type Options struct {
	MaxFile  int64 // bytes of one file, at least 64 KiB; 0 takes DefaultMaxFile
	MaxTotal int64 // bytes of all files, 2 to 256 times MaxFile; 0 takes DefaultMaxTotal
	// Sync makes records survive a loss of power once Append has returned.
	// Without it they survive the end of the process, however it ends.
	Sync bool
	// SyncFull syncs a file when the next one begins, so that an append that is
	// synced because of a [Made] has no unsynced records before it.
	SyncFull bool
	// Held keeps files open between appends; nil: nothing stays open.
	Held *Held
	Now  func() time.Time // default time.Now
}

// A Journal is a folder of records. It is safe for concurrent use by many
// goroutines and processes and keeps no file open between calls, except for
// those that [Options].Held keeps. Its errors are of type *[sandbox.Error].
type Journal struct {
	dir      string
	maxFile  int64
	maxTotal int64
	sync     bool
	syncFull bool
	held     *Held
	now      func() time.Time
	turn     chan struct{} // one goroutine at a time tries for the lock
}

// Open returns the journal in the folder dir, and creates the folder with mode
// 0700 when it is missing. It refuses a folder that is a symbolic link, that
// other users can write to or that another user owns, as [statedir.MakePrivate]
// does.
func Open(dir string, o Options) (*Journal, error) {
	if o.MaxFile == 0 {
		o.MaxFile = DefaultMaxFile
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = max(DefaultMaxTotal, 2*o.MaxFile)
	}
	if o.MaxFile < minFile || o.MaxTotal < 2*o.MaxFile || o.MaxTotal/o.MaxFile > maxFiles {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "open journal",
			"files of %d bytes and %d bytes in all: a file needs at least %d bytes, and all together 2 to %d times one",
			o.MaxFile, o.MaxTotal, minFile, maxFiles)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	return &Journal{
		dir: path, maxFile: o.MaxFile, maxTotal: o.MaxTotal, sync: o.Sync, syncFull: o.SyncFull, held: o.Held, now: o.Now,
		turn: make(chan struct{}, 1),
	}, nil
}
