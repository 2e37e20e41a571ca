package resource

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A liveManager lists and measures sandboxes; *manager.Manager is one.
type liveManager interface {
	List(ctx context.Context, o manager.ListOptions) (manager.Listing, error)
	Figures(ctx context.Context, rows []manager.Row) []manager.Stat
}

// A liveQueue holds the open questions of all tenants; *manager.ApprovalQueue is one.
type liveQueue interface {
	PendingAll() []sandbox.PermissionRequest
}

// LiveOptions configure the resource. All are required.
type LiveOptions struct {
	Manager   liveManager
	Approvals liveQueue
	Log       logrus.FieldLogger
}

const (
	// liveLook is the least time between two looks at all sandboxes, and liveShare
	// how many times as long as a look takes of a processor nothing is done after it:
	// looks take no more than a fortieth of one, whatever number of streams is open.
	liveLook, liveShare = time.Second, 40
	// liveFlush is the time between two events with records, and between two looks
	// at the open questions.
	liveFlush = 200 * time.Millisecond
	// liveKept is how many records wait for one stream; more are dropped and counted.
	liveKept = 1000
	// livePage is how many sandboxes one event has.
	livePage = 250
)

// Live reports what goes on, while a stream follows it. It has to be closed. The
// methods Violations and Evidence are for the stores of records.
type Live struct {
	following atomic.Int32

	mu       sync.Mutex
	o        LiveOptions
	streams  map[*liveStream]struct{}
	snapshot *liveSnapshot // nil before the first look
	stop     context.CancelFunc
	looking  sync.WaitGroup
	closed   bool
}

// A liveSnapshot is one look at all sandboxes. It does not change.
type liveSnapshot struct {
	at    time.Time
	rows  []manager.Row
	stats []manager.Stat // of the rows, in their order
}

// A liveStream is a caller that follows. The fields below mu belong to the stores and
// the stream.
type liveStream struct {
	c    *Call
	all  bool
	wake chan struct{} // has room for one

	mu         sync.Mutex
	violations []violation.Record
	evidence   []evidence.Record
	dropped    int64
}

// NewLive returns a Live of which [Live.Resource] makes a resource.
func NewLive() *Live { return &Live{streams: map[*liveStream]struct{}{}} }

// Resource returns the resource.
func (l *Live) Resource(o LiveOptions) Resource {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o = o
	return l
}

// Close ends the looks. Streams end with their requests.
func (l *Live) Close() {
	l.mu.Lock()
	l.closed = true
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
	l.mu.Unlock()
	l.looking.Wait()
}

// Routes implements [Resource].
func (l *Live) Routes() []Route {
	return []Route{{
		ID: "followEvents", Method: http.MethodGet, Path: api.Prefix + "/events", Tag: "records", Role: token.Session,
		Summary: "Follow what goes on", Stream: true, Follows: true, Timeout: Endless,
		Doc: "It begins with all sandboxes, and goes on with what changes: sandboxes, what they use, open questions, and records that this daemon writes. " +
			"What happened before is in the lists. Whether a sandbox is as a new one would be is left out. Sandboxes are looked at about once a second, less often where there are many.",
		Query: []Param{{Name: "all", Type: Boolean, Doc: "Every tenant's; for admins"}},
		Events: []Event{
			{Name: api.EventSandboxes, Data: api.LiveSandboxes{}, Doc: "Sandboxes that are new, have changed or are gone"},
			{Name: api.EventFigures, Data: api.LiveFigures{}, Doc: "What sandboxes use now, of those that use something else than before"},
			{Name: api.EventApprovals, Data: api.ApprovalList{}, Doc: "All questions that wait for an answer, when they have changed"},
			{Name: api.EventRecords, Data: api.LiveRecords{}, Doc: "Records that were written since the last of these events"},
		},
		Do: l.follow,
	}}
}

// Violations passes records on to the streams. It does not wait.
func (l *Live) Violations(rs []violation.Record) {
	l.each(func(s *liveStream) {
		for _, r := range rs {
			if s.sees(r.Tenant, r.Agent, r.Session) && s.room() {
				s.violations = append(s.violations, r)
			}
		}
	})
}

// Evidence is Violations for records of evidence.
func (l *Live) Evidence(rs []evidence.Record) {
	l.each(func(s *liveStream) {
		for _, r := range rs {
			if r.Type != evidence.TypeCheckpoint && s.sees(r.Tenant, r.Agent, r.Session) && s.room() {
				s.evidence = append(s.evidence, r)
			}
		}
	})
}

// each calls fn for every stream, which fn has for itself.
func (l *Live) each(fn func(*liveStream)) {
	if l.following.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.streams {
		s.mu.Lock()
		fn(s)
		s.mu.Unlock()
	}
}

// sees reports whether a record is one that the caller may read, as the lists of
// records have it.
func (s *liveStream) sees(tenant, agent, session string) bool {
	return (s.all || tenant == s.c.Who.Tenant) && approvalsBound(s.c.Caller.Agent, agent) && approvalsBound(s.c.Caller.Session, session)
}

// room reports whether one more record can wait. The caller holds mu.
func (s *liveStream) room() bool {
	if len(s.violations)+len(s.evidence) < liveKept {
		return true
	}
	s.dropped++
	return false
}

// join begins a stream, and the looks with the first one.
func (l *Live) join(s *liveStream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "follow", Message: "the server is going down", Retryable: true}
	}
	l.streams[s] = struct{}{}
	l.following.Add(1)
	if l.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		l.stop, l.snapshot = stop, nil
		l.looking.Go(func() { l.look(ctx) })
	}
	return nil
}

// leave ends a stream, and the looks with the last one.
func (l *Live) leave(s *liveStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, s)
	l.following.Add(-1)
	if len(l.streams) == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// look looks at all sandboxes until ctx ends.
func (l *Live) look(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began, used := time.Now(), processorTime()
		list, err := l.o.Manager.List(ctx, manager.ListOptions{All: true, Unmatched: true}) // has what the records hold where a provider does not answer
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.o.Log.WithError(err).Debug("not every sandbox can be looked at")
		}
		rows := slices.DeleteFunc(list.Containers, func(r manager.Row) bool { return r.Kind != sandbox.KindSandbox })
		s := &liveSnapshot{at: time.Now(), rows: rows, stats: l.o.Manager.Figures(ctx, rows)}
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		if ctx.Err() == nil { // or another look has begun
			l.snapshot = s
			for f := range l.streams {
				select {
				case f.wake <- struct{}{}:
				default:
				}
			}
		}
		l.mu.Unlock()
		// What the process has used meanwhile is an upper bound of what the look has
		// used, and so is the time that it took; on a busy machine most of that is
		// waiting.
		timer.Reset(max(liveLook, liveShare*min(time.Since(began), processorTime()-used)))
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (l *Live) latest() *liveSnapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshot
}

func (l *Live) follow(c *Call) (any, error) {
	s := &liveStream{c: c, all: c.True("all"), wake: make(chan struct{}, 1)}
	if s.all && !c.Admin() {
		return nil, notYours("all")
	}
	if err := l.join(s); err != nil {
		return nil, err
	}
	defer l.leave(s)
	e := c.Events()
	defer e.Close()
	sent := &liveSent{items: map[api.LiveSandbox]liveItem{}}
	if snapshot := l.latest(); snapshot != nil {
		s.wake <- struct{}{}
	}
	flush := time.NewTicker(liveFlush)
	defer flush.Stop()
	for {
		var err error
		select {
		case <-c.Context().Done():
			return Sent{}, nil
		case <-s.wake:
			if snapshot := l.latest(); snapshot != nil {
				err = sent.sandboxes(s, e, snapshot)
			}
		case <-flush.C:
			if err = sent.approvals(s, e, l.o.Approvals.PendingAll()); err == nil {
				err = s.records(e)
			}
		}
		if err != nil {
			return Sent{}, nil // the client has gone
		}
	}
}

// records sends what has come since the last time.
func (s *liveStream) records(e *Events) error {
	s.mu.Lock()
	violations, evidence, dropped := s.violations, s.evidence, s.dropped
	s.violations, s.evidence, s.dropped = nil, nil, 0
	s.mu.Unlock()
	if len(violations)+len(evidence) == 0 && dropped == 0 {
		return nil
	}
	out := api.LiveRecords{Dropped: dropped}
	for _, r := range violations {
		out.Violations = append(out.Violations, shownViolation(r))
	}
	for _, r := range evidence {
		out.Evidence = append(out.Evidence, shownEvidence(r))
	}
	return e.Send(api.EventRecords, out)
}

// A liveSent is what a stream has sent.
type liveSent struct {
	begun     bool
	items     map[api.LiveSandbox]liveItem
	questions []string
	asked     bool
	at        time.Time
}

// A liveItem is what was sent of one sandbox.
type liveItem struct {
	row    liveRow
	figure api.LiveFigure
}

// A liveRow is what of a row counts as a change.
type liveRow struct {
	id            string
	status        sandbox.Status
	used, expires int64
}

func rowMark(r *manager.Row) liveRow {
	return liveRow{r.ID, r.Status, r.LastUsedAt.Unix(), r.ExpiresAt.Unix()}
}

// sandboxes sends what has changed since the last snapshot.
func (t *liveSent) sandboxes(s *liveStream, e *Events, snapshot *liveSnapshot) error {
	out := api.LiveSandboxes{First: !t.begun, Items: []api.Sandbox{}}
	figures := api.LiveFigures{Time: snapshot.at.UTC(), Items: []api.LiveFigure{}}
	seen := make(map[api.LiveSandbox]bool, len(t.items))
	cpu, disk, net := 0.0, int64(0), int64(0)
	for i := range snapshot.rows {
		r, stat := &snapshot.rows[i], &snapshot.stats[i]
		if !s.all && r.Tenant != s.c.Who.Tenant || !Allowed(s.c, r.Tenant, r.Agent, r.Session, r.Scope) {
			continue
		}
		key := api.LiveSandbox{Name: r.Name, Provider: r.Provider, Tenant: r.Tenant}
		seen[key] = true
		now := liveItem{row: rowMark(r), figure: api.LiveFigure{
			LiveSandbox: key, CPUSeconds: stat.CPUSeconds, Memory: stat.Memory, PIDs: stat.PIDs,
			DiskRead: stat.DiskRead, DiskWritten: stat.DiskWritten, NetReceived: stat.NetReceived, NetSent: stat.NetSent,
		}}
		before, known := t.items[key]
		if !known || before.row != now.row {
			out.Items = append(out.Items, shown(s.c, *r))
		}
		if now.figure != before.figure && (known || stat.CPUSeconds > 0 || stat.Memory > 0) {
			figures.Items = append(figures.Items, now.figure)
		}
		if known { // what one has used before it was seen is no use of now
			cpu += max(0, now.figure.CPUSeconds-before.figure.CPUSeconds)
			disk += max(0, now.figure.DiskRead+now.figure.DiskWritten-before.figure.DiskRead-before.figure.DiskWritten)
			net += max(0, now.figure.NetReceived+now.figure.NetSent-before.figure.NetReceived-before.figure.NetSent)
		}
		figures.Total.Sandboxes++
		if r.Status == sandbox.StatusRunning {
			figures.Total.Running++
		}
		figures.Total.Memory += stat.Memory
		figures.Total.PIDs += stat.PIDs
		t.items[key] = now
	}
	for key := range t.items {
		if !seen[key] {
			out.Gone = append(out.Gone, key)
			delete(t.items, key)
		}
	}
	if took := snapshot.at.Sub(t.at).Seconds(); !t.at.IsZero() && took > 0 {
		figures.Total.CPU, figures.Total.DiskBytes, figures.Total.NetBytes = cpu/took, float64(disk)/took, float64(net)/took
	}
	t.at = snapshot.at
	if out.First || len(out.Items)+len(out.Gone) > 0 {
		t.begun = true
		for part := range slices.Chunk(out.Items, livePage) {
			next := api.LiveSandboxes{First: out.First, Items: part}
			if err := e.Send(api.EventSandboxes, next); err != nil {
				return err
			}
			out.First = false
		}
		if out.First || len(out.Gone) > 0 {
			if err := e.Send(api.EventSandboxes, api.LiveSandboxes{First: out.First, Items: []api.Sandbox{}, Gone: out.Gone}); err != nil {
				return err
			}
		}
	}
	return e.Send(api.EventFigures, figures)
}

// approvals sends the open questions where they are not those of the last time.
func (t *liveSent) approvals(s *liveStream, e *Events, all []sandbox.PermissionRequest) error {
	var mine []sandbox.PermissionRequest
	ids := []string{}
	for _, q := range all {
		if s.sees(q.Tenant, q.Agent, q.Session) {
			if !s.c.Admin() {
				q = q.Inward()
			}
			mine, ids = append(mine, q), append(ids, q.ID)
		}
	}
	if t.asked && slices.Equal(ids, t.questions) {
		return nil
	}
	t.asked, t.questions = true, ids
	return e.Send(api.EventApprovals, listOf(mine))
}
