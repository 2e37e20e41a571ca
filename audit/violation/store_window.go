package violation

import (
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
)

// Bounds of what is written, so that a client that repeats the same attempt can
// neither fill the disk, use up memory nor push the records of others out.
const (
	// MaxAtOnce is how many different records of one Append are kept.
	maxAtOnce = 64
	// MaxInWindow is how many different records of one session are kept in one
	// Window.
	maxInWindow = 128
	// Window is how long equal records of one session are counted as one.
	storeWindow = time.Minute

	maxSessions = 32 // that are remembered
)

// omittedMessage is what a record says that stands for many.
const omittedMessage = "more of these were not kept one by one"

// An owner identifies a window.
type owner struct{ tenant, agent, session string }

func (r Record) owner() owner { return owner{r.Tenant, r.Agent, r.Session} }

// collapse returns rs with equal ones made one that counts them, and all but
// the first MaxAtOnce different ones of each session summed up by type.
func collapse(rs []Record) []Record {
	windows := map[owner]*window{}
	var order []*window
	var out []Record
	for _, r := range rs {
		w := windows[r.owner()]
		if w == nil {
			w = &window{most: maxAtOnce}
			windows[r.owner()] = w
			order = append(order, w)
		}
		w.add(r, func(r Record) { out = append(out, r) })
	}
	for i, r := range out { // what was counted behind the first one belongs to it
		out[i].Count += windows[r.owner()].seen[keyOf(r)].more
	}
	for _, w := range order {
		out = append(out, w.sums()...)
	}
	return out
}

// A key is what equal records have in common: a record without its time and
// count.
type key Record

func keyOf(r Record) key {
	r.Time, r.Count = time.Time{}, 0
	return key(r)
}

// A repeat is a record that was written, and how often it came again.
type repeat struct {
	record Record
	more   int64
}

// A window counts the records of one session.
type window struct {
	most    int // different records that are written
	since   time.Time
	seen    map[key]repeat
	order   []key
	omitted map[Type]repeat // by type what was not written
}

// add hands r to write unless it was before or is too much.
func (w *window) add(r Record, write func(Record)) {
	if w.seen == nil {
		w.seen, w.omitted = map[key]repeat{}, map[Type]repeat{}
	}
	k := keyOf(r)
	if s, ok := w.seen[k]; ok {
		s.more += r.Count
		s.record.Time = r.Time
		w.seen[k] = s
		return
	}
	if len(w.seen) < w.most {
		w.seen[k] = repeat{record: r}
		w.order = append(w.order, k)
		write(r)
		return
	}
	s, ok := w.omitted[r.Type]
	if !ok {
		s.record = Record{
			Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Sandbox: r.Sandbox, Type: r.Type,
			Severity: r.Severity, Verdict: r.Verdict, Kind: r.Kind, Op: r.Op, Message: omittedMessage,
		}
	}
	s.more += r.Count
	s.record.Time = r.Time
	s.record.Severity = max(s.record.Severity, r.Severity)
	s.record.Verdict = policy.Strictest(s.record.Verdict, r.Verdict)
	w.omitted[r.Type] = s
}

// sums returns what was not written, by type, and forgets it.
func (w *window) sums() []Record {
	var out []Record
	for _, t := range Types() {
		if s, ok := w.omitted[t]; ok {
			s.record.Count = s.more
			out = append(out, s.record)
		}
	}
	clear(w.omitted)
	return out
}

// pending returns what was only counted since it was written, and forgets the
// counts.
func (w *window) pending() []Record {
	var out []Record
	for _, k := range w.order {
		if s := w.seen[k]; s.more > 0 {
			s.record.Count = s.more
			out = append(out, s.record)
			s.more = 0
			w.seen[k] = s
		}
	}
	return append(out, w.sums()...)
}

// A ledger has a window for each of a bounded number of sessions. Time is
// given to it.
type ledger struct {
	windows map[owner]*window
}

// take returns what is to be written when rs come in: those that are new, and
// the counts of windows that are over.
func (l *ledger) take(now time.Time, rs []Record) []Record {
	if l.windows == nil {
		l.windows = map[owner]*window{}
	}
	var out []Record
	for who, w := range l.windows {
		if age := now.Sub(w.since); age >= storeWindow || age < -storeWindow { // clocks can be set back
			out = append(out, w.pending()...)
			delete(l.windows, who)
		}
	}
	for _, r := range rs {
		who := r.owner()
		w := l.windows[who]
		if w == nil {
			out = append(out, l.makeRoom()...)
			w = &window{most: maxInWindow, since: now}
			l.windows[who] = w
		}
		w.add(r, func(r Record) { out = append(out, r) })
	}
	return out
}

// makeRoom forgets the session whose window is the oldest, when there are too
// many.
func (l *ledger) makeRoom() []Record {
	if len(l.windows) < maxSessions {
		return nil
	}
	var oldest owner
	for who, w := range l.windows {
		if o := l.windows[oldest]; o == nil || w.since.Before(o.since) {
			oldest = who
		}
	}
	out := l.windows[oldest].pending()
	delete(l.windows, oldest)
	return out
}

// pending returns what was only counted, the oldest first.
func (l *ledger) pending() []Record {
	var out []Record
	for _, w := range l.windows {
		out = append(out, w.pending()...)
	}
	slices.SortStableFunc(out, func(a, b Record) int { return a.Time.Compare(b.Time) })
	return out
}

// keep takes back what take or pending has handed out: it is pending again.
// Of a window that is over by now it is lost.
func (l *ledger) keep(rs []Record) {
	for _, r := range rs {
		w := l.windows[r.owner()]
		if w == nil {
			continue
		}
		if s, ok := w.seen[keyOf(r)]; ok {
			s.more += r.Count
			w.seen[keyOf(r)] = s
			continue
		}
		s, ok := w.omitted[r.Type]
		if !ok {
			s.record = r
		}
		s.more += r.Count
		w.omitted[r.Type] = s
	}
}
