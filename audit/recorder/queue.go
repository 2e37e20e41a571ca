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

// A queue is a queue before a sink. The caller that adds a job to an idle lane
// starts a goroutine that writes the queued jobs batch by batch; the goroutine
// ends when the queue is empty, or after a failure. Jobs that could not be
// written stay in order and are retried with the next ones. The lock of the
// sinkWriter guards the contents. An empty lane is removed.
type queue struct {
	*sinkWriter
	tenant string

	jobs    []*job
	waiting int // records in jobs
	writing bool
	began   time.Time     // of the write that is going on
	ended   chan struct{} // closed when writing ends or fails; nil: no caller waits for that
	next    chan struct{} // as ended, for callers that arrived during a write, which may fail for reasons that no longer apply
	failing error         // how the last write ended
	careful int           // so many jobs are written one by one: one of them was refused
	dropped dropped
}

// A job is what is written together.
type job struct {
	records []evidence.Record
	done    chan error // receives the result once; nil: no caller waits
}

func (j *job) answer(err error) {
	if j.done != nil {
		j.done <- err
		j.done = nil
	}
}

// put adds a job if there is a place for it. Begins leave half of the places to
// ends, because a missing end later counts as an operation whose program died.
// The caller holds the lock.
func (l *queue) put(j *job) bool {
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

// start starts the writing goroutine when it is not running. The caller holds
// the lock.
func (l *queue) start() {
	if !l.writing {
		l.writing, l.began = true, time.Now()
		go l.drain()
	}
}

// drain writes what waits.
func (l *queue) drain() {
	for more := true; more; {
		l.mu.Lock()
		l.began = time.Now()
		b := l.batch()
		l.mu.Unlock()
		err := l.write(append(b.reported, b.records...))
		if err != nil {
			l.tell(err)
		}
		l.mu.Lock()
		more = l.settle(b, err)
		l.mu.Unlock()
	}
}

// A batch is written at once: records that report losses, followed by the
// records of the first jobs.
type batch struct {
	jobs     int
	there    int // jobs that waited when it was taken
	records  []evidence.Record
	lost     []loss
	reported []evidence.Record
}

// batch returns what is written next. The jobs stay in the queue until it is.
func (l *queue) batch() batch {
	if l.ended == nil {
		l.ended, l.next = l.next, nil
	}
	b := batch{there: len(l.jobs)}
	if l.careful == 0 {
		b.lost, b.reported = l.dropped.take()
	}
	if l.most == 1 && len(b.reported) > 0 {
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

// settle processes the result of a batch, and reports whether to go on with the
// queue. A batch that failed stays and waits for the next record; jobs that can
// never be written are removed. Callers that arrived during the write get the
// result of a later attempt: the disk may have room by then.
func (l *queue) settle(b batch, err error) (more bool) {
	panicked, refused := errors.Is(err, errPanic), sandbox.CodeOf(err) == sandbox.CodeValidation
	if err != nil && !panicked {
		l.dropped.giveBack(b.lost)
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
	if len(l.jobs) == 0 && len(l.dropped) == 0 {
		return l.stop()
	}
	return true
}

// stop marks the lane as idle.
func (l *queue) stop() (more bool) {
	l.writing = false
	if len(l.jobs) == 0 && len(l.dropped) == 0 {
		delete(l.lanes, l.tenant)
	}
	tellEnd(&l.ended)
	tellEnd(&l.next)
	return false
}

// tellEnd wakes the callers that wait on ended: a write has failed, or the lane
// is idle.
func tellEnd(ended *chan struct{}) {
	if *ended != nil {
		close(*ended)
		*ended = nil
	}
}

// drop takes the first jobs out of the queue and answers them.
func (l *queue) drop(jobs int, err error) {
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
func (l *queue) lose(rs []evidence.Record) {
	for _, r := range rs {
		if l.keeps && r.Tenant != l.tenant { // one of too many
			r = evidence.Record{Time: r.Time, Type: r.Type, Share: r.Share}
		}
		l.dropped.add(r)
	}
	l.count.Lost += int64(len(rs))
}

// patience says how long a caller waits for what need not be written: hardly,
// where the sink has failed or stands still.
func (l *queue) patience(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil || l.writing && time.Since(l.began) >= most {
		return most / hasty
	}
	return most
}

// flush starts a write of the queue, and returns a channel that is closed when
// that has ended; the failure of a write that is already running does not close
// it. The caller holds the lock.
func (l *queue) flush() chan struct{} {
	ended := &l.ended
	if l.writing {
		ended = &l.next
	}
	if *ended == nil {
		*ended = make(chan struct{})
	}
	reported := *ended
	l.start()
	return reported
}
