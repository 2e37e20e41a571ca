package wire

import (
	"errors"
	"io"
	"time"
)

const (
	// tries bounds how often Read looks for a state that does not change
	// under it. Each time but the first it has found that a later one was
	// being kept, which a guest that writes honestly does once per line.
	tries = 10
	// pause is what it waits between them.
	pause = time.Millisecond
)

// ErrTorn means that the content is not that of which the index speaks.
var errTorn = errors.New("the state does not match its index")

// Look returns the record of an index that counts.
func Look(index io.ReaderAt) (Record, error) {
	var b [IndexLen]byte
	n, err := index.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return Record{}, err
	}
	return decodeSnapshot(b[:n])
}

// Read returns the state of which the index speaks, nil for none. It reads at
// most MaxSize bytes of content at a time, and ends after some milliseconds
// whatever the other side does to the files meanwhile.
func Read(index io.ReaderAt, files [2]io.ReaderAt) (r Record, content []byte, err error) {
	for try := range tries {
		if try > 0 {
			time.Sleep(pause)
		}
		if r, err = Look(index); err != nil {
			continue
		}
		if r.File == None {
			return r, nil, nil
		}
		content = make([]byte, r.Size)
		if _, err = files[r.File].ReadAt(content, 0); err != nil && err != io.EOF {
			continue
		}
		if Sum(0, content) == r.Sum {
			return r, content, nil
		}
		err = errTorn
	}
	return Record{}, nil, err
}
