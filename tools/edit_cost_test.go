package tools

import (
	"bytes"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// thueMorse is a text whose pieces have the same polynomial sums modulo powers
// of two, which makes searches that trust such sums compare everywhere.
func thueMorse(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		ones := 0
		for j := i; j > 0; j >>= 1 {
			ones += j & 1
		}
		out[i] = 'a' + byte(ones%2)
	}
	return out
}

// worked is the processor time that this process has had, which others do not
// change.
func worked(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestCostOfNearMisses checks that time grows with the size of the input: four
// times as much may take at most twelve times as long, where the product of
// sizes would take sixteen times. The least of several runs counts, because
// time that the machine spends on other work is measured as ours.
func TestCostOfNearMisses(t *testing.T) {
	for name, make := range map[string]func(n int) (text, old []byte){
		"one letter": func(n int) ([]byte, []byte) {
			return bytes.Repeat([]byte("a"), n), append(bytes.Repeat([]byte("a"), n/2), 'b')
		},
		"one letter, in front": func(n int) ([]byte, []byte) {
			return bytes.Repeat([]byte("a"), n), append([]byte("b"), bytes.Repeat([]byte("a"), n/2)...)
		},
		"the same line": func(n int) ([]byte, []byte) {
			return bytes.Repeat([]byte("ab\n"), n/3), append(bytes.Repeat([]byte("ab\n"), n/6), "ac\n"...)
		},
		"empty lines": func(n int) ([]byte, []byte) {
			return bytes.Repeat([]byte("\n"), n), append(bytes.Repeat([]byte("\n"), n/2), 'x')
		},
		"blanks": func(n int) ([]byte, []byte) {
			return bytes.Repeat([]byte(" "), n), append(bytes.Repeat([]byte(" "), n/2), 'x')
		},
		"equal sums": func(n int) ([]byte, []byte) { return thueMorse(n), append(thueMorse(n/2), 'x') },
		"many near": func(n int) ([]byte, []byte) {
			return bytes.Repeat([]byte("some line here\n"), n/15), []byte("some line hers\n")
		},
		"many places": func(n int) ([]byte, []byte) { return bytes.Repeat([]byte("ab"), n/2), []byte("ab") },
	} {
		t.Run(name, func(t *testing.T) {
			least := func(n, runs int) time.Duration {
				text, old := make(n)
				best := time.Hour
				for range runs {
					runtime.GC()
					start := worked(t)
					_, err := applyEdits(text, []textEdit{{Old: string(old), New: "new"}})
					best = min(best, worked(t)-start)
					if sandbox.CodeOf(err) != sandbox.CodeValidation {
						t.Fatal(err)
					}
				}
				return best
			}
			small, largeEdit := least(1<<18, 3), least(1<<20, 3)
			tooLong := func() bool { return largeEdit > 12*small+50*time.Millisecond }
			if tooLong() {
				largeEdit = min(largeEdit, least(1<<20, 7))
			}
			t.Logf("256 KiB %v, 1 MiB %v", small, largeEdit)
			if tooLong() {
				t.Errorf("256 KiB took %v, and 1 MiB %v", small, largeEdit)
			}
		})
	}
}

func BenchmarkEdits(b *testing.B) {
	text := []byte(strings.Repeat("some line that is here\n", maxEditText/23-20) + "the last line\n")
	var edits []textEdit
	for i := range maxEdits {
		edits = append(edits, textEdit{Old: "the last line" + strings.Repeat("x", i), New: "the last line" + strings.Repeat("x", i+1)})
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := applyEdits(text, edits); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEditMiss(b *testing.B) {
	text := bytes.Repeat([]byte("\tsome line that is here, again\n"), maxEditText/31)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := applyEdits(text, []textEdit{{Old: "\tsome line that is there, again\n", New: "x"}}); err == nil {
			b.Fatal("it was found")
		}
	}
}
