package witness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/evidence"
)

// Bounds of a write.
const (
	maxBatch      = 128       // records
	maxBatchBytes = 256 << 10 // of their data
	writeWithin   = 5 * time.Second
	sayEvery      = 10 * time.Second // between two lines of the log about one sink
)

// Why a record finds no place.
var (
	errFull  = errors.New("too many records wait to be written")
	errPanic = errors.New("the sink panics")
)

// A lane is the queue before one sink. Whoever puts something into an idle lane
// starts a goroutine that writes what has gathered, batch by batch; it ends
// when nothing waits, or after a failure. What could not be written stays, in
// its order, and goes with what comes next.
type lane struct {
	sink  Sink
	keeps bool
	most  int // records in a batch
	room  int // records that may wait
	// before is called with what is about to be written; its error counts as
	// that of the sink.
	before func([]evidence.Record) error
	log    logrus.FieldLogger
	now    func() time.Time

	mu      sync.Mutex
	jobs    []*job
	waiting int // records in jobs
	writing bool
	began   time.Time     // of the write that is going on
	ended   chan struct{} // closed when writing ends; nil: nobody waits for that
	failing error         // how the last write ended
	careful int           // so many jobs are written one by one: one of them was refused
	losses  losses
	said    time.Time // when the log was told last
	count   SinkCounters
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

func newLane(s Sink, o Options, before func([]evidence.Record) error) *lane {
	l := &lane{sink: s, most: maxBatch, room: o.Queue, log: o.Log, now: o.Now, losses: losses{}}
	if _, l.keeps = s.(Keeper); l.keeps {
		l.before = before
	}
	if _, ok := s.(*Callback); ok {
		l.most = 1 // a panic loses what was given, and no more
	}
	l.count.Name = s.Name()
	return l
}

// put gives a job to the lane, or counts its records as lost when there is no
// place. Begins leave half of the places to ends: an end that is missing later
// counts as one that nobody lived to tell.
func (l *lane) put(j *job) error {
	l.mu.Lock()
	room := l.room
	if j.records[0].Type == evidence.TypeBegin {
		room /= 2
	}
	if l.waiting+len(j.records) > room {
		l.lose(j.records)
		l.mu.Unlock()
		l.tell(errFull)
		return errFull
	}
	l.jobs = append(l.jobs, j)
	l.waiting += len(j.records)
	l.start()
	l.mu.Unlock()
	return nil
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
		l.mu.Lock()
		more = l.settle(b, err)
		l.mu.Unlock()
		if err != nil {
			l.tell(err)
		}
	}
}

// A batch is what is written at once: records of the first jobs, and before
// them what tells of losses.
type batch struct {
	jobs    int
	records []evidence.Record
	lost    []loss
	told    []evidence.Record
}

// batch returns what is written next. The jobs stay in the queue until it is.
func (l *lane) batch() batch {
	var b batch
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

// write gives records to the sink.
func (l *lane) write(rs []evidence.Record) (err error) {
	if len(rs) == 0 {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	if l.before != nil {
		if err := l.before(rs); err != nil {
			return err
		}
	}
	ctx, done := context.WithTimeout(context.Background(), writeWithin)
	defer done()
	return l.sink.Write(ctx, rs...)
}

// settle notes how a batch went, and reports whether to go on with what waits.
// A batch that failed stays and waits for the next record; what can never be
// written does not.
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
	case panicked, refused && b.jobs == 1:
		l.lose(b.records)
		l.drop(b.jobs, err)
	case refused && b.jobs > 1:
		l.careful = b.jobs
	default:
		l.count.Failures++
		for _, j := range l.jobs {
			j.answer(err)
		}
		return l.stop()
	}
	if len(l.jobs) == 0 {
		return l.stop()
	}
	return true
}

// stop notes that nobody writes any more.
func (l *lane) stop() (more bool) {
	l.writing = false
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
	return false
}

// drop takes the first jobs out of the queue and answers them.
func (l *lane) drop(jobs int, err error) {
	for _, j := range l.jobs[:jobs] {
		l.waiting -= len(j.records)
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
		l.losses.add(r)
	}
	l.count.Lost += int64(len(rs))
}

// tell puts a failure into the log, but not more often than anybody would read.
func (l *lane) tell(why error) {
	now := l.now()
	l.mu.Lock()
	since := now.Sub(l.said)
	quiet := !l.said.IsZero() && since >= 0 && since < sayEvery // clocks can be set back
	if !quiet {
		l.said = now
	}
	c := l.counters()
	l.mu.Unlock()
	if !quiet {
		l.log.WithError(why).WithField("sink", c.Name).WithField("waiting", c.Waiting).WithField("lost", c.Lost).
			Error("operations are not on record")
	}
}

// patience says how long a caller waits for what need not be written: hardly,
// where the sink has failed or stands still.
func (l *lane) patience(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil || l.writing && time.Since(l.began) >= most {
		return most / 256
	}
	return most
}

// flush waits until nobody writes, and returns why something still waits.
func (l *lane) flush(ctx context.Context) error {
	l.mu.Lock()
	if !l.writing && len(l.jobs) == 0 && len(l.losses) == 0 {
		l.mu.Unlock()
		return nil
	}
	l.start()
	if l.ended == nil {
		l.ended = make(chan struct{})
	}
	ended := l.ended
	l.mu.Unlock()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && len(l.jobs) > 0 {
		err = l.failing
	}
	if n := int64(l.waiting) + l.losses.waiting(); n > 0 || err != nil {
		return noEvidence(fmt.Sprintf("%d records are missing in %s", n, l.count.Name), err)
	}
	return nil
}

// counters is called with the lock held.
func (l *lane) counters() SinkCounters {
	c := l.count
	c.Waiting = int64(l.waiting)
	return c
}
