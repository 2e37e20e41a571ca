//go:build linux

package enter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
)

const (
	maxOrder   = 4 << 20 // bytes
	maxSources = 8192
	maxArgs    = 8192
	maxLimits  = 64
)

// An Order says what to show and whom to become.
type Order struct {
	UID     int      // never 0
	GID     int      // never 0
	Sources []string // absolute, clean and without links; files or folders, whose names need not be text
	Program string   // absolute path of what to execute
	Args    []string // its arguments, with its name
	Limits  []Limit  // that the program and all it starts have
}

// A Limit is one of setrlimit(2).
type Limit struct {
	Resource int // its number
	Soft     uint64
	Hard     uint64
}

// check refuses an order that would not lead down.
func (o Order) check() error {
	switch {
	case o.UID <= 0 || o.GID <= 0 || o.UID > maxID || o.GID > maxID:
		return fmt.Errorf("uid %d and gid %d must be above 0", o.UID, o.GID)
	case !path.IsAbs(o.Program) || len(o.Args) == 0:
		return errors.New("no program to execute")
	case len(o.Sources) > maxSources || len(o.Args) > maxArgs || len(o.Limits) > maxLimits:
		return errors.New("too many sources, arguments or limits")
	}
	for _, s := range o.Sources {
		if !path.IsAbs(s) || path.Clean(s) != s || strings.ContainsRune(s, 0) {
			return fmt.Errorf("the source %q is not a clean absolute path", s)
		}
	}
	return nil
}

// maxID is the highest id that is not reserved for "no id".
const maxID = 1<<32 - 2

// Encode writes the order as it crosses to the program that follows it:
// numbers of 4 bytes, limits of 8, big-endian, and before each string and each
// list its length. The guest knows no richer format, which would cost it half
// a megabyte.
func (o Order) Encode() ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(o.UID))
	b = binary.BigEndian.AppendUint32(b, uint32(o.GID))
	b = appendText(b, o.Program)
	for _, list := range [][]string{o.Args, o.Sources} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
		for _, s := range list {
			b = appendText(b, s)
		}
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(o.Limits)))
	for _, l := range o.Limits {
		b = binary.BigEndian.AppendUint32(b, uint32(l.Resource))
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, l.Soft), l.Hard)
	}
	if len(b) > maxOrder {
		return nil, errors.New("the order is too long")
	}
	return b, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// parse reads and checks an order.
func parse(b []byte) (Order, error) {
	r := &reader{rest: b}
	o := Order{UID: int(r.number()), GID: int(r.number()), Program: r.text()}
	o.Args, o.Sources = r.texts(maxArgs), r.texts(maxSources)
	for range r.count(maxLimits) {
		o.Limits = append(o.Limits, Limit{Resource: int(r.number()), Soft: r.long(), Hard: r.long()})
	}
	if r.short || len(r.rest) > 0 {
		return Order{}, errors.New("the order is malformed")
	}
	return o, o.check()
}

// A reader takes an order apart. Once something is missing it gives zeros.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n uint64) []byte {
	if r.short || n > uint64(len(r.rest)) {
		r.short = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) long() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string { return string(r.take(uint64(r.number()))) }

// count reads how many there are of something, at most limit.
func (r *reader) count(limit uint32) uint32 {
	n := r.number()
	if n > limit {
		r.short = true
		return 0
	}
	return n
}

func (r *reader) texts(limit uint32) (list []string) {
	for range r.count(limit) {
		list = append(list, r.text())
	}
	return list
}
