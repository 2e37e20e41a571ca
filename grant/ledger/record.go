package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// A key names the file of an account by a hash, because ids may contain any
// characters.
type key [sha256.Size]byte

func keyOf(id string) key { return sha256.Sum256([]byte(id)) }

func (k key) String() string { return hex.EncodeToString(k[:]) }

// A record is what one slot of an account's file says.
type record struct {
	id      string
	parent  key    // zero for a root
	expires int64  // milliseconds since the epoch, 0 for never
	seq     uint64 // counts the changes, from 1
	used    budget.Amount
}

// The layout of a slot: big-endian, in a disk sector of its own so that tearing
// one never harms the other.
const (
	magic    = "budget 1"
	slotSize = 512
	fileSize = 2 * slotSize

	seqAt     = len(magic)
	expiresAt = seqAt + 8
	usedAt    = expiresAt + 8
	parentAt  = usedAt + 8*int(budget.NumKinds)
	idLenAt   = parentAt + sha256.Size
	idAt      = idLenAt + 2
	sumAt     = slotSize - sha256.Size
)

// errCorrupt completes a sentence that begins with "the account's file".
var errCorrupt = errors.New("holds no account that can be believed")

// encode writes r as one slot.
func encode(r record) [slotSize]byte {
	var s [slotSize]byte
	copy(s[:], magic)
	binary.BigEndian.PutUint64(s[seqAt:], r.seq)
	binary.BigEndian.PutUint64(s[expiresAt:], uint64(r.expires))
	for k, n := range budget.Values(r.used) {
		binary.BigEndian.PutUint64(s[usedAt+8*k:], uint64(n))
	}
	copy(s[parentAt:], r.parent[:])
	binary.BigEndian.PutUint16(s[idLenAt:], uint16(len(r.id)))
	copy(s[idAt:sumAt], r.id)
	sum := sha256.Sum256(s[:sumAt])
	copy(s[sumAt:], sum[:])
	return s
}

// decode reads what encode wrote and nothing else.
func decode(s []byte) (record, bool) {
	if len(s) != slotSize || string(s[:seqAt]) != magic || sha256.Sum256(s[:sumAt]) != [sha256.Size]byte(s[sumAt:]) {
		return record{}, false
	}
	n := int(binary.BigEndian.Uint16(s[idLenAt:]))
	if n == 0 || n > MaxID || len(bytes.Trim(s[idAt+n:sumAt], "\x00")) > 0 {
		return record{}, false
	}
	r := record{
		id:      string(s[idAt : idAt+n]),
		parent:  key(s[parentAt:idLenAt]),
		expires: int64(binary.BigEndian.Uint64(s[expiresAt:])),
		seq:     binary.BigEndian.Uint64(s[seqAt:]),
	}
	var used [budget.NumKinds]int64
	for k := range used {
		used[k] = int64(binary.BigEndian.Uint64(s[usedAt+8*k:]))
		if used[k] < 0 {
			return record{}, false
		}
	}
	r.used = budget.FromValues(used)
	return r, r.seq > 0 && r.expires >= 0
}

// newest returns the record of a whole file. Of two slots the one with the
// higher number counts, which is one more than the other's; one slot alone
// counts when the other has never been written or was torn.
func newest(data []byte) (record, error) {
	if len(data) != fileSize {
		return record{}, errCorrupt
	}
	a, okA := decode(data[:slotSize])
	b, okB := decode(data[slotSize:])
	switch {
	case !okA && !okB, okA && slotOf(a.seq) != 0, okB && slotOf(b.seq) != slotSize:
		return record{}, errCorrupt
	case !okB:
		return a, nil
	case !okA:
		return b, nil
	case a.id != b.id || a.parent != b.parent:
		return record{}, errCorrupt
	case a.seq == b.seq+1:
		return a, nil
	case b.seq == a.seq+1:
		return b, nil
	}
	return record{}, errCorrupt
}

// slotOf is where the record with that number lies: odd ones in the first.
func slotOf(seq uint64) int64 { return int64((seq+1)%2) * slotSize }
