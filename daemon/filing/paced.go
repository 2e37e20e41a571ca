package filing

import (
	"net/http"
	"time"
)

const (
	piece    = 64 << 10         // bytes that are written at once
	patience = 30 * time.Second // what every answer may take to be read
	perPiece = time.Second      // what each piece of it may take besides
)

// A paced answer is in memory as a whole until it was written, and so is what it
// tells of. Who takes it more slowly than a piece in a second is cut off.
type paced struct{ http.ResponseWriter }

// Unwrap is for [http.ResponseController].
func (p paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements [io.Writer] for a whole answer. It panics with
// [http.ErrAbortHandler], so that nobody takes a part for the whole.
func (p paced) Write(b []byte) (int, error) {
	end := time.Now().Add(patience + perPiece*time.Duration(len(b)/piece))
	for n := 0; ; {
		m, err := p.ResponseWriter.Write(b[n:min(len(b), n+piece)])
		n += m
		switch {
		case err != nil || n >= len(b):
			return n, err
		case time.Now().After(end):
			panic(http.ErrAbortHandler)
		}
	}
}
