package hostscan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// bufSize has room for some 800 names, so that most folders take two calls: one
// that fills the buffer and one that reports the end.
const bufSize = 32 << 10

// list calls fn for each name in the open folder fd. The name is valid only
// during the call; kind is a DT constant and may be unknown.
func list(fd int, buf []byte, fn func(name []byte, kind uint8, ino uint64) error) error {
	for {
		var n int
		err := hostpath.Retry(func() (err error) { n, err = unix.ReadDirent(fd, buf); return err })
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			size := int(binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
			const at = int(unsafe.Offsetof(unix.Dirent{}.Name))
			if size < at || size > len(rest) {
				return errors.New("the kernel lists a folder in a form that is not known")
			}
			entry := rest[:size]
			rest = rest[size:]
			name, _, _ := bytes.Cut(entry[at:], []byte{0})
			ino := binary.NativeEndian.Uint64(entry[unsafe.Offsetof(unix.Dirent{}.Ino):])
			if ino == 0 || len(name) == 0 || string(name) == "." || string(name) == ".." {
				continue
			}
			if err := fn(name, entry[unsafe.Offsetof(unix.Dirent{}.Type)], ino); err != nil {
				return err
			}
		}
	}
}

// kindOf returns the DT constant for a file mode.
func kindOf(mode uint32) uint8 { return uint8(mode & unix.S_IFMT >> 12) }

func closedTo(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }
