package journal

import (
	"maps"
	"sync"
	"time"
)

// Bounds of a Held.
const (
	maxHeld = 12          // journals, with three files each
	heldFor = time.Second // since the last append
)

// A Held keeps the files of journals open between their appends: those of the
// twelve journals that were last appended to, each for a second or two. An
// append that finds the files where it left them saves opening them. Every
// append still checks that the open files are those of the journal, so that
// concurrent changes are noticed as without a Held. As long as files are open
// their filesystem can be neither unmounted nor made read-only; Close closes
// them. A Held is safe for concurrent use by the journals that share it, and is
// used through [Options].
type Held struct {
	mu    sync.Mutex
	files map[*Journal]*kept // of the journals that no caller is writing to now
	timed bool               // expire will be called
}

// NewHeld returns a Held without open files.
func NewHeld() *Held { return &Held{files: map[*Journal]*kept{}} }

// take returns the files of j, which are the caller's until put. A nil Held
// keeps none.
func (h *Held) take(j *Journal) *kept {
	if h == nil {
		return &kept{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.files[j]
	if k == nil {
		return &kept{}
	}
	delete(h.files, j)
	return k
}

// put keeps the files of j, instead of those that were not used for longest
// when there are too many.
func (h *Held) put(j *Journal, k *kept) {
	if h == nil {
		k.close()
		return
	}
	k.used = time.Now()
	h.mu.Lock()
	var goes *kept
	if len(h.files) >= maxHeld {
		goes = h.oldest()
	}
	h.files[j] = k
	if !h.timed {
		h.timed = true
		time.AfterFunc(heldFor, h.expire)
	}
	h.mu.Unlock()
	if goes != nil {
		goes.close()
	}
}

// oldest takes out the files that were not used for longest. It is called with
// the lock held and where there are some.
func (h *Held) oldest() *kept {
	var of *Journal
	for j, k := range h.files {
		if of == nil || k.used.Before(h.files[of].used) {
			of = j
		}
	}
	k := h.files[of]
	delete(h.files, of)
	return k
}

// expire closes the files that have been unused for a while, and schedules
// itself again as long as any file is open.
func (h *Held) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(h.files, func(_ *Journal, k *kept) bool {
		idle := now.Sub(k.used) >= heldFor
		if idle {
			k.close()
		}
		return idle
	})
	if h.timed = len(h.files) > 0; h.timed {
		time.AfterFunc(heldFor, h.expire)
	}
}

// Close closes the open files. Journals that are appended to afterwards are
// kept open again for a while.
func (h *Held) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.files {
		k.close()
	}
	clear(h.files)
}
