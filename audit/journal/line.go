package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// MaxRecord is the largest record in bytes of compact JSON.
const MaxRecord = 16 << 10

// maxLine bounds a line: a record and what is around it.
const maxLine = MaxRecord + 512

// A digest is a SHA-256.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// The kinds of lines.
const (
	kindRecord  = "record"  // what a caller has appended
	kindHeader  = "header"  // the first line of a file
	kindSeal    = "seal"    // what was found at the end of the journal and is no record
	kindCleared = "cleared" // what Clear has taken away
)

// An entry is one line:
//
//	{"hash":"…","prev":"…","seq":7,"time":"…","kind":"record","data":{…}}
//
// Hash is the SHA-256 of the line's own bytes from "prev" to the closing brace.
// These bytes include the hash of the previous line, so a changed, removed or
// moved line no longer matches its neighbours. The hash covers bytes, never a
// decoded form, so no canonical form has to be defined.
type entry struct {
	seq  uint64
	hash digest
	prev digest
	at   time.Time
	kind string
	data json.RawMessage
}

// The pieces of a line that are always the same.
const (
	beforeHash = `{"hash":"`
	beforePrev = `"prev":"`
	beforeSeq  = `","seq":`
	beforeTime = `,"time":"`
	beforeKind = `","kind":"`
	beforeData = `","data":`

	aroundData = 320 // bytes of a line besides its data, and some more

	hashed = len(beforeHash) + 2*sha256.Size + len(`",`) // where the hashed bytes begin
)

// appendLine appends e as a line, sets its hash and returns the longer slice.
func appendLine(dst []byte, e *entry) []byte {
	start := len(dst)
	dst = append(dst, beforeHash...)
	dst = append(dst, make([]byte, 2*sha256.Size)...)
	dst = append(dst, `",`+beforePrev...)
	dst = hex.AppendEncode(dst, e.prev[:])
	dst = append(dst, beforeSeq...)
	dst = strconv.AppendUint(dst, e.seq, 10)
	dst = append(dst, beforeTime...)
	dst = e.at.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, beforeKind...)
	dst = append(dst, e.kind...)
	dst = append(dst, beforeData...)
	dst = append(dst, e.data...)
	dst = append(dst, '}')
	e.hash = sha256.Sum256(dst[start+hashed:])
	hex.Encode(dst[start+len(beforeHash):], e.hash[:])
	return append(dst, '\n')
}

// Reasons why a line is not a journal entry.
var (
	errForeign = errors.New("it is not a line of a journal")
	errAltered = errors.New("its bytes do not have the hash that it names")
)

// parseLine reads a line without its line feed. The data of the entry alias
// line. With errAltered the entry contains what the line claims.
func parseLine(line []byte) (entry, error) {
	var e entry
	rest := line
	ok := len(line) <= maxLine && takeDigest(&rest, beforeHash, &e.hash) && take(&rest, `",`) &&
		takeDigest(&rest, beforePrev, &e.prev) && take(&rest, beforeSeq)
	if !ok {
		return entry{}, errForeign
	}
	seq, rest, ok1 := bytes.Cut(rest, []byte(beforeTime))
	at, rest, ok2 := bytes.Cut(rest, []byte(beforeKind))
	kind, rest, ok3 := bytes.Cut(rest, []byte(beforeData))
	data, ok4 := bytes.CutSuffix(rest, []byte("}"))
	var err1, err2 error
	e.seq, err1 = strconv.ParseUint(string(seq), 10, 64)
	e.at, err2 = time.Parse(time.RFC3339Nano, string(at))
	e.kind, e.data = string(kind), data
	if !ok1 || !ok2 || !ok3 || !ok4 || err1 != nil || err2 != nil || !knownKind(e.kind) || !json.Valid(data) {
		return entry{}, errForeign
	}
	if sha256.Sum256(line[hashed:]) != e.hash {
		return e, errAltered
	}
	return e, nil
}

func knownKind(k string) bool {
	return k == kindRecord || k == kindHeader || k == kindSeal || k == kindCleared
}

func take(rest *[]byte, prefix string) bool {
	after, ok := bytes.CutPrefix(*rest, []byte(prefix))
	*rest = after
	return ok
}

// takeDigest reads prefix and 64 lower-case hex digits.
func takeDigest(rest *[]byte, prefix string, d *digest) bool {
	if !take(rest, prefix) || len(*rest) < 2*sha256.Size {
		return false
	}
	digits := (*rest)[:2*sha256.Size]
	*rest = (*rest)[2*sha256.Size:]
	_, err := hex.Decode(d[:], digits)
	return err == nil && bytes.Equal(digits, bytes.ToLower(digits))
}

// header is the data of the first line of a file.
type header struct {
	Format   int      `json:"format"`
	File     uint64   `json:"file"`   // its own number
	Oldest   uint64   `json:"oldest"` // the oldest file that was kept when this one began; older ones were dropped
	Previous previous `json:"previous"`
}

// previous names the end of the file before.
type previous struct {
	File uint64 `json:"file"` // 0: there was none
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// seal is the data of a line that says what was found at the end.
type seal struct {
	Why string `json:"why"`
	// Bytes from Offset on that are not records: a torn line, or data that
	// another program wrote.
	Offset int64 `json:"offset"`
	Stray  int64 `json:"stray"`
	// Lost names the last record that had been written, when it is gone.
	LostSeq  uint64 `json:"lostSeq,omitempty"`
	LostHash string `json:"lostHash,omitempty"`
}

// Why a seal was written.
const (
	sealTorn      = "torn"      // a write did not come to its end
	sealTruncated = "truncated" // records that had been written are gone
	sealForeign   = "foreign"   // another program has written
	sealHead      = "head"      // the note of where the journal ends was gone
)
