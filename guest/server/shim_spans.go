//go:build linux

package server

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// ownSpans returns what a shim keeps of the guest's address space beside
// its memory and its stack: the code and the constants, and the words of the
// command line. The last span begins where there is nothing to unmap any
// more. The fourth place is left to the memory.
func ownSpans() ([3]span, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return [3]span{}, err
	}
	defer f.Close()
	code, top, err := parseMaps(f, uintptr(unsafe.Pointer(unsafe.StringData(shimDefaultPath))))
	if err != nil {
		return [3]span{}, err
	}
	title, size := commandLine()
	page := uintptr(os.Getpagesize())
	line := pagesAround(uintptr(title), uintptr(size), page)
	if line.from < code.to || line.to > top {
		return [3]span{}, errors.New("the command line lies at an unexpected place")
	}
	return [3]span{code, line, {top, top}}, nil
}

// pagesAround is the span of whole pages that hold size bytes.
func pagesAround(at, size, page uintptr) span {
	return span{at &^ (page - 1), (at + size + page - 1) &^ (page - 1)}
}

// parseMaps reads a maps file of proc(5). It returns the span of the
// read-only mappings of the file that the constant at lies in, and the end
// of the highest mapping of user memory.
func parseMaps(r io.Reader, at uintptr) (code span, top uintptr, err error) {
	var file string
	var lines []mapping
	for s := bufio.NewScanner(r); s.Scan(); {
		m, ok := parseMapping(s.Text())
		if !ok {
			return span{}, 0, errors.New("malformed line in /proc/self/maps")
		}
		lines = append(lines, m)
		if m.from <= at && at < m.to {
			file = m.file
		}
		if m.file != "[vsyscall]" {
			top = max(top, m.to)
		}
	}
	for _, m := range lines {
		if m.file != file || file == "" || m.writable {
			continue
		}
		if code.to == 0 {
			code.from = m.from
		}
		code.to = m.to
	}
	if code.to == 0 {
		return span{}, 0, errors.New("the program is not in /proc/self/maps")
	}
	return code, top, nil
}

type mapping struct {
	span
	writable bool
	file     string
}

// parseMapping reads "FROM-TO rwxp OFFSET DEVICE INODE FILE".
func parseMapping(line string) (mapping, bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 || len(fields[1]) < 2 {
		return mapping{}, false
	}
	low, high, _ := strings.Cut(fields[0], "-")
	from, err := strconv.ParseUint(low, 16, 64)
	to, err2 := strconv.ParseUint(high, 16, 64)
	m := mapping{span: span{uintptr(from), uintptr(to)}, writable: fields[1][1] == 'w'}
	if len(fields) > 5 {
		m.file = strings.Join(fields[5:], " ")
	}
	return m, err == nil && err2 == nil && from < to
}

// inOrder puts one more span among three that do not touch it.
func inOrder(three [3]span, one span) [4]span {
	four := [4]span{one, three[0], three[1], three[2]}
	for i := 0; i+1 < len(four) && four[i].from > four[i+1].from; i++ {
		four[i], four[i+1] = four[i+1], four[i]
	}
	return four
}

// commandLine returns where the words of the command line lie, one after
// the other. The runtime does not copy them.
func commandLine() (at unsafe.Pointer, size int) {
	for _, word := range os.Args {
		size += len(word) + 1
	}
	return unsafe.Pointer(unsafe.StringData(os.Args[0])), size
}
