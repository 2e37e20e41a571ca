package fsbridge

import (
	"errors"
	"sync"
)

// errTooMuch ends a command whose output is larger than anything honest.
var errTooMuch = errors.New("the sandbox sent more than it may")

// A boundedBuffer keeps up to max bytes and refuses what is beyond.
type boundedBuffer struct {
	max  int
	full func() // called once when more arrives; may be nil

	mu   sync.Mutex
	b    []byte
	over bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || len(b.b)+len(p) > b.max {
		if !b.over && b.full != nil {
			b.full()
		}
		b.over = true
		return 0, errTooMuch
	}
	b.b = append(b.b, p...)
	return len(p), nil
}

func (b *boundedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b)
}

func (b *boundedBuffer) exceeded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// A tail keeps the last bytes that were written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-tailSize):]...)
	if n := len(t.b) - tailSize; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
