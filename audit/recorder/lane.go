package recorder

import (
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// Bounds of a write.
const (
	maxBatch      = 128       // records
	maxBatchBytes = 256 << 10 // of their data
	hasty         = 256       // part of a wait that is left where waiting hardly helps
)

// writeWithin is how long what has to be written may take, unless
// [Options.Wait] is longer.
const writeWithin = 5 * time.Second

// A lane is a queue before a sink. Whoever puts something into an idle lane
// starts a goroutine that writes what has gathered, batch by batch; it ends
// when nothing waits, or after a failure. What could not be written stays, in
// its order, and goes with what comes next. What is in it is guarded by the lock
// of its outlet. An empty one goes away.
type lane struct {
	*outlet
	tenant string

	jobs    []*job
	waiting int // records in jobs
	writing bool
	began   time.Time     // of the write that is going on
	ended   chan struct{} // closed when writing ends or fails; nil: nobody waits for that
	next    chan struct{} // as ended, of who came during a write, which may fail for what is over
	failing error         // how the last write ended
	careful int           // so many jobs are written one by one: one of them was refused
	losses  losses
}

// A job is what is written together.
type job struct {
	records []evidence.Record
	done    chan error // hears once how it went; nil: nobody waits
}

func (j *job) answer(err error) {
	if j.done != nil {
		j.done <- err
		j.done = nil
	}
}

// put takes a job if there is a place for it. Begins leave half of the places to
// ends: an end that is missing later counts as one that nobody lived to tell. It
// is called with the lock held.
func (l *lane) put(j *job) bool {
	if l.keeps && l.tenant != j.records[0].Tenant {
		return false
	}
	room, all := l.room, int64(l.room)
	if l.keeps {
		all *= share
	}
	if j.records[0].Type == evidence.TypeBegin {
		room, all = room/2, all/2
	}
	if l.waiting+len(j.records) > room || l.count.Waiting+int64(len(j.records)) > all {
		return false
	}
	l.jobs = append(l.jobs, j)
	l.waiting += len(j.records)
	l.count.Waiting += int64(len(j.records))
	l.start()
	return true
}

// start sees to it that somebody writes. It is called with the lock held.
func (l *lane) start() {
	if !l.writing {
		l.writing, l.began = true, time.Now()
		go l.drain()
	}
}

// drain writes what waits.
func (l *lane) drain() {
	for more := true; more; {
		l.mu.Lock()
		l.began = time.Now()
		b := l.batch()
		l.mu.Unlock()
		err := l.write(append(b.told, b.records...))
		if err != nil {
			l.tell(err)
		}
		l.mu.Lock()
		more = l.settle(b, err)
		l.mu.Unlock()
	}
}

// A batch is what is written at once: records of the first jobs, and before
// them what tells of losses.
type batch struct {
	jobs    int
	there   int // jobs that waited when it was taken
	records []evidence.Record
	lost    []loss
	told    []evidence.Record
}

// batch returns what is written next. The jobs stay in the queue until it is.
func (l *lane) batch() batch {
	if l.ended == nil {
		l.ended, l.next = l.next, nil
	}
	b := batch{there: len(l.jobs)}
	if l.careful == 0 {
		b.lost, b.told = l.losses.take()
	}
	if l.most == 1 && len(b.told) > 0 {
		return b
	}
	size := 0
	for _, j := range l.jobs {
		if b.jobs > 0 && (l.careful > 0 || len(b.records)+len(j.records) > l.most || size >= maxBatchBytes) {
			break
		}
		b.jobs++
		b.records = append(b.records, j.records...)
		for _, r := range j.records {
			size += len(r.Data) + 512
		}
	}
	return b
}

// settle notes how a batch went, and reports whether to go on with what waits.
// A batch that failed stays and waits for the next record; what can never be
// written does not. Who came while it was written hears of a try of his own: the
// disk may have had room by then.
func (l *lane) settle(b batch, err error) (more bool) {
	panicked, refused := errors.Is(err, errPanic), sandbox.CodeOf(err) == sandbox.CodeValidation
	if err != nil && !panicked {
		l.losses.giveBack(b.lost)
	}
	l.failing = err
	switch {
	case err == nil:
		l.count.Written += int64(len(b.records))
		l.drop(b.jobs, nil)
		l.wake()
	case panicked, refused && b.jobs == 1:
		l.lose(b.records)
		l.drop(b.jobs, err)
	case refused && b.jobs > 1:
		l.careful = b.jobs
	default:
		l.count.Failures++
		for _, j := range l.jobs[:b.there] {
			j.answer(err)
		}
		if len(l.jobs) == b.there && l.next == nil {
			return l.stop()
		}
		tellEnd(&l.ended)
		return true
	}
	if len(l.jobs) == 0 && len(l.losses) == 0 {
		return l.stop()
	}
	return true
}

// stop notes that nobody writes any more.
func (l *lane) stop() (more bool) {
	l.writing = false
	if len(l.jobs) == 0 && len(l.losses) == 0 {
		delete(l.lanes, l.tenant)
	}
	tellEnd(&l.ended)
	tellEnd(&l.next)
	return false
}

// tellEnd tells who waits for it that a write has not led anywhere, or that
// nobody writes any more.
func tellEnd(ended *chan struct{}) {
	if *ended != nil {
		close(*ended)
		*ended = nil
	}
}

// drop takes the first jobs out of the queue and answers them.
func (l *lane) drop(jobs int, err error) {
	for _, j := range l.jobs[:jobs] {
		l.waiting -= len(j.records)
		l.count.Waiting -= int64(len(j.records))
		j.answer(err)
	}
	clear(l.jobs[:jobs])
	l.careful = max(0, l.careful-jobs)
	if l.jobs = l.jobs[jobs:]; len(l.jobs) == 0 {
		l.jobs = nil
	}
}

// lose counts records that the sink will never get.
func (l *lane) lose(rs []evidence.Record) {
	for _, r := range rs {
		if l.keeps && r.Tenant != l.tenant { // one of too many
			r = evidence.Record{Time: r.Time, Type: r.Type, Share: r.Share}
		}
		l.losses.add(r)
	}
	l.count.Lost += int64(len(rs))
}

// patience says how long a caller waits for what need not be written: hardly,
// where the sink has failed or stands still.
func (l *lane) patience(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil || l.writing && time.Since(l.began) >= most {
		return most / hasty
	}
	return most
}

// flush sees to it that what waits is written, and returns what is closed when
// that has ended, which a write that is going on already does not do by failing.
// It is called with the lock held.
func (l *lane) flush() chan struct{} {
	ended := &l.ended
	if l.writing {
		ended = &l.next
	}
	if *ended == nil {
		*ended = make(chan struct{})
	}
	told := *ended
	l.start()
	return told
}
