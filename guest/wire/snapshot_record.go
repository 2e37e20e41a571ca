package wire

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	// MaxSize bounds a state in bytes.
	MaxSize = 16 << 20
	// RecordLen is the length of a record in bytes.
	recordLen = 36
	// IndexLen is the length of the index in bytes.
	IndexLen = 2 * recordLen
)

// None as the File of a Record says that no state is kept.
const None = 2

const snapshotMagic = "BKSS"

// ErrNoRecord means that an index holds no whole record.
var ErrNoRecord = errors.New("the index of a state holds no whole record")

// A Record says where a whole state lies, and which one it is.
type Record struct {
	File       uint32
	Serial     uint64
	Kept, Over uint32 // lines
	Size, Sum  uint32 // of the content
}

// Sum continues the check sum of content with more of it. It begins at 0.
func Sum(sum uint32, more []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), more)
}

// Encode returns the record and the offset in the index at which it belongs.
func (r Record) Encode() (b [recordLen]byte, offset int64) {
	copy(b[:], snapshotMagic)
	binary.LittleEndian.PutUint32(b[4:], r.File)
	binary.LittleEndian.PutUint64(b[8:], r.Serial)
	binary.LittleEndian.PutUint32(b[16:], r.Kept)
	binary.LittleEndian.PutUint32(b[20:], r.Over)
	binary.LittleEndian.PutUint32(b[24:], r.Size)
	binary.LittleEndian.PutUint32(b[28:], r.Sum)
	binary.LittleEndian.PutUint32(b[32:], Sum(0, b[:32]))
	return b, int64(r.Serial%2) * recordLen
}

// Decode returns the record of an index that counts.
func decodeSnapshot(index []byte) (r Record, err error) {
	found := false
	for at := uint64(0); at < 2 && len(index) >= recordLen; at++ {
		one, ok := decodeRecord(index[:recordLen])
		index = index[recordLen:]
		if ok && one.Serial%2 == at && (!found || one.Serial > r.Serial) {
			r, found = one, true
		}
	}
	if !found {
		return Record{}, ErrNoRecord
	}
	return r, nil
}

func decodeRecord(b []byte) (r Record, ok bool) {
	r = Record{
		File:   binary.LittleEndian.Uint32(b[4:]),
		Serial: binary.LittleEndian.Uint64(b[8:]),
		Kept:   binary.LittleEndian.Uint32(b[16:]),
		Over:   binary.LittleEndian.Uint32(b[20:]),
		Size:   binary.LittleEndian.Uint32(b[24:]),
		Sum:    binary.LittleEndian.Uint32(b[28:]),
	}
	whole := string(b[:4]) == snapshotMagic && binary.LittleEndian.Uint32(b[32:]) == Sum(0, b[:32])
	return r, whole && r.File <= None && r.Size <= MaxSize
}
