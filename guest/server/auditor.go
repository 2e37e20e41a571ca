//go:build linux

package server

import (
	"sync"
	"time"
)

const (
	// firstLookAt and lastLookAt are between two looks at a command: often at
	// first and when it comes near a bound, and less and less when not.
	firstLookAt = 10 * time.Millisecond
	lastLookAt  = 100 * time.Millisecond
	// rarestLook is the longest time between two looks, whatever they cost:
	// a fork bomb has to be met in time.
	rarestLook = 250 * time.Millisecond
	// lookShare is how many times as long as a look we wait for the next, so
	// that they take less than a hundredth of one processor.
	lookShare = 100
	// To answer a question about the usage of a command the auditor looks
	// sooner: answerShare times as long as a look after the last one, but at
	// least shortestWait, so that many questions share a look, and at most
	// longestWait, because the client may be about to end the command by the
	// answer.
	answerShare  = 10
	shortestWait = 2 * time.Millisecond
	longestWait  = 25 * time.Millisecond
)

// An auditor looks from time to time at what those commands use that have
// bounds, all in one look, and ends the ones that are beyond them. It looks too
// when a client asks. It does nothing while there is no command to look at. Its
// methods are safe for concurrent use.
type auditor struct {
	swap bool

	mu      sync.Mutex
	watched map[*command]*watched
	asked   map[*command]bool // commands of which a client wants to know
	running bool              // the goroutine is there
	awake   time.Time         // when it looks what there is to do, at the latest
	soon    chan struct{}     // wakes it, because a command was added
	// For what the last look has cost: the next one is not before the first of
	// these times, and not before the second one where a client asks.
	notBefore, answerAt time.Time
}

// A watched is a command that is looked at. Its pauses belong to the goroutine
// of the auditor once it is entered.
type watched struct {
	audit *audit
	pause time.Duration // until the look after the next one
	due   time.Time

	mu   sync.Mutex
	tree *meterTree // guarded by mu
}

func (w *watched) use(table *meterTable) meterUse {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tree.Look(table)
}

func newAuditor() *auditor {
	return &auditor{swap: hasSwap(), watched: map[*command]*watched{}, asked: map[*command]bool{}, soon: make(chan struct{}, 1)}
}

// watch looks at a command from now on, until it is gone or let go of. Its
// program runs, and that of a shell has run lines before: what these have used
// of processor time does not count. Without bounds that have to be looked at it
// does nothing.
func (o *auditor) watch(m *command, a *audit, shell bool) {
	if a == nil || a.bounds == (meterBounds{}) {
		return
	}
	with := meterOptions{Swap: o.swap}
	if shell {
		with.Earlier, with.Ours = true, 1 // the descriptor store
	}
	w := &watched{
		audit: a, tree: newTree(m.shim.pid, a.bounds, with),
		pause: firstLookAt, due: time.Now().Add(firstLookAt),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watched[m] = w
	if !o.running || o.awake.After(w.due) {
		o.wake() // which costs a short line as much as everything else that is done here
	}
}

// ask looks at a command as soon as may be and has it answer. One that is gone
// by then does not.
func (o *auditor) ask(m *command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked[m] = true
	o.wake()
}

// wake has the goroutine see what is new. Precondition: mu is held.
func (o *auditor) wake() {
	if !o.running {
		o.running = true
		go o.run()
		return
	}
	select {
	case o.soon <- struct{}{}:
	default:
	}
}

// release lets go of a command. What is seen of it from now on is of no
// matter.
func (o *auditor) release(m *command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.watched, m)
}

// last looks once more at a command whose program has ended and has left
// processes, before these are ended: a fork bomb may have ended by itself,
// because it met the bound of the whole sandbox first.
func (o *auditor) last(m *command) {
	o.mu.Lock()
	w := o.watched[m]
	o.mu.Unlock()
	var table meterTable
	if w != nil && table.Read() == nil {
		w.audit.look(w.use(&table))
	}
}

// run looks until there is no command left to look at.
func (o *auditor) run() {
	var table meterTable
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, some := o.next()
		if !some {
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-o.soon:
			continue
		}
		start := time.Now()
		if o.look(&table, start) {
			o.rest(start, time.Since(start))
		}
	}
}

// rest puts off the next look, by what the one that began at start has cost.
func (o *auditor) rest(start time.Time, cost time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notBefore = start.Add(min(lookShare*cost, rarestLook))
	o.answerAt = start.Add(min(max(answerShare*cost, shortestWait), longestWait))
}

// next returns when the next look is due, and forgets commands that are gone.
// Where there are no others the goroutine has to end.
func (o *auditor) next() (due time.Time, some bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for m, w := range o.watched {
		switch {
		case m.isGone():
			delete(o.watched, m)
		case !some || w.due.Before(due):
			due, some = w.due, true
		}
	}
	if some && due.Before(o.notBefore) {
		due = o.notBefore
	}
	for m := range o.asked {
		switch {
		case m.isGone():
			delete(o.asked, m)
		case !some || o.answerAt.Before(due):
			due, some = o.answerAt, true
		}
	}
	o.running, o.awake = some, due
	return due, some
}

// look looks at those that are due now or soon, and reports whether there was
// anybody.
func (o *auditor) look(table *meterTable, now time.Time) bool {
	due, asked := o.due(now), o.questions(now)
	if len(due)+len(asked) == 0 {
		return false
	}
	if table.Read() != nil {
		for _, m := range asked {
			o.ask(m)
		}
		return true
	}
	for _, m := range asked {
		m.tellUse(table)
	}
	for m, w := range due {
		use := w.use(table)
		// A command that was gone before the table was read has a shim
		// that may be another's by now.
		if !o.watches(m, w) {
			continue
		}
		w.pause = min(2*w.pause, lastLookAt)
		if w.audit.bounds.Near(use) {
			w.pause = firstLookAt
		}
		w.due = now.Add(w.pause)
		if w.audit.look(use) {
			go m.kill(0)
		}
	}
	return true
}

// questions takes the commands whose usage a client has asked for, if it is
// time to answer.
func (o *auditor) questions(now time.Time) []*command {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.answerAt) {
		return nil
	}
	list := make([]*command, 0, len(o.asked))
	for m := range o.asked {
		list = append(list, m)
	}
	clear(o.asked)
	return list
}

// watches reports whether a command is there yet, and looked at for w.
func (o *auditor) watches(m *command, w *watched) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watched[m] == w && !m.isGone()
}

// due returns the commands to be looked at. A table costs the same for one
// command more, so that no command waits for one of its own.
func (o *auditor) due(now time.Time) map[*command]*watched {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make(map[*command]*watched, len(o.watched))
	for m, w := range o.watched {
		if !m.isGone() && !w.due.After(now.Add(firstLookAt)) {
			list[m] = w
		}
	}
	return list
}
