package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxEntry bounds a file, in bytes: a call of which each byte may take six.
const maxEntry = 4 << 10

// An entry is what a file says. Its sum covers its name as well, so that one
// that was moved or copied is damaged.
type entry struct {
	name string // of the file

	Call  string `json:"call"`
	Until int64  `json:"until"` // milliseconds since the epoch when the grant expires
	Sum   string `json:"sum"`
}

// nameOf returns the path of the entry of a key, by a hash, because tenants and
// keys may contain any characters. The length of the tenant keeps it from
// running into the key.
func nameOf(tenant, key string) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(len(tenant)))
	sum := sha256.Sum256(append(append(text, tenant...), key...))
	return hex.EncodeToString(sum[:])
}

// shardOf is the folder of an entry, one of 256, so that none gets large.
func shardOf(name string) string { return name[:2] }

// errDecisionDamaged is the error for a file without valid contents.
var errDecisionDamaged = errors.New("the file cannot be read; move it away when it is known what it was")

func encodeDecision(e entry) ([]byte, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", e.name, e.Until, e.Call))
	e.Sum = hex.EncodeToString(sum[:])
	data, err := json.Marshal(e)
	return append(data, '\n'), err
}

// decodeDecision reads what encode has written under that name and nothing
// else.
func decodeDecision(name string, data []byte) (entry, bool) {
	e := entry{name: name}
	if err := json.Unmarshal(data, &e); err != nil {
		return entry{}, false
	}
	want, err := encodeDecision(e)
	return e, err == nil && bytes.Equal(want, data) && isText(e.Call) && e.Call != decisionUnknown && e.Until >= 0
}

// read returns the entry at path. A missing one is fs.ErrNotExist, one that is
// no whole entry is errDamaged.
func read(path string) (entry, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return entry{}, errDecisionDamaged
	}
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return entry{}, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxEntry {
		return entry{}, errDecisionDamaged
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return entry{}, err
	}
	e, ok := decodeDecision(filepath.Base(path), data)
	if !ok {
		return entry{}, errDecisionDamaged
	}
	return e, nil
}
