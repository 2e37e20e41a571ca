package egress

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func isDone(m *meter) bool {
	select {
	case <-m.Done():
		return true
	default:
		return false
	}
}

func TestConnections(t *testing.T) {
	m := newMeter(Limits{Connections: 2})
	defer m.Close()
	first, err := m.Take()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Take(); err != nil {
		t.Fatal(err)
	}
	_, err = m.Take()
	var e *sandbox.Error
	if !errors.Is(err, errConnections) || !errors.As(err, &e) || e.Code != sandbox.CodeBudgetExceeded || !e.Retryable || e.Hint == "" {
		t.Fatalf("the third: %v", err)
	}
	if isDone(m) || m.Err() != nil {
		t.Error("one connection too many has ended the others")
	}
	first()
	first() // counts once
	if _, err := m.Take(); err != nil {
		t.Error(err)
	}
	if _, err := m.Take(); err == nil {
		t.Error("a connection was given back twice")
	}
	if c := m.Counts(); c != (meterCounts{Open: 2, Taken: 3, Refused: 2}) {
		t.Errorf("%+v", c)
	}
}

// TestBytes checks that a limit is reached exactly, and that exceeding it ends
// both directions.
func TestBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		count  func(*meter, int64) error
		other  func(*meter, int64) error
		want   error
	}{
		"in":  {Limits{BytesIn: 10}, (*meter).In, (*meter).Out, errBytesIn},
		"out": {Limits{BytesOut: 10}, (*meter).Out, (*meter).In, errBytesOut},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(tt.limits)
			defer m.Close()
			for _, n := range []int64{4, 6, 0} {
				if err := tt.count(m, n); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.other(m, 1<<40); err != nil {
				t.Fatal(err)
			}
			if isDone(m) {
				t.Fatal("it ended before the limit was passed")
			}
			if err := tt.count(m, 1); !errors.Is(err, tt.want) || sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
				t.Fatalf("%v", err)
			}
			if !isDone(m) || !errors.Is(m.Err(), tt.want) {
				t.Error("it did not end")
			}
			if err := tt.other(m, 1); !errors.Is(err, tt.want) {
				t.Errorf("the other direction: %v", err)
			}
			if _, err := m.Take(); !errors.Is(err, tt.want) {
				t.Errorf("a connection after the end: %v", err)
			}
			if c := m.Counts(); c.In+c.Out != 10+1<<40 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestOddNumbers(t *testing.T) {
	m := newMeter(Limits{BytesIn: 10})
	defer m.Close()
	if err := m.In(-5); err == nil {
		t.Error("bytes were given back")
	}
	if err := m.In(5); err != nil {
		t.Error(err)
	}
	if err := m.In(math.MaxInt64); !errors.Is(err, errBytesIn) {
		t.Errorf("%v", err)
	}
	if c := m.Counts(); c.In != 5 {
		t.Errorf("%+v", c)
	}
}

func TestCheck(t *testing.T) {
	if err := (Limits{Connections: 1, BytesIn: 1, BytesOut: 1, RequestBytes: 1, Idle: 1, Total: 1}).Check(); err != nil {
		t.Error(err)
	}
	for _, l := range []Limits{{Connections: -1}, {BytesIn: -1}, {BytesOut: -1}, {RequestBytes: -1}, {Idle: -1}, {Total: -1}} {
		err := l.Check()
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field == "" {
			t.Errorf("%+v: %v", l, err)
		}
		// An unchecked negative limit must not be taken for no limit.
		m := newMeter(l)
		_, takeErr := m.Take()
		if inErr, outErr := m.In(1), m.Out(1); l.Idle == 0 && l.RequestBytes == 0 && takeErr == nil && inErr == nil && outErr == nil {
			t.Errorf("%+v lets everything through", l)
		}
		m.Close()
	}
}

func TestTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(Limits{Total: time.Minute})
		start := time.Now()
		<-m.Done()
		if d := time.Since(start); d != time.Minute || !errors.Is(m.Err(), errTotal) {
			t.Errorf("after %v: %v", d, m.Err())
		}
		m.Close()
		if !errors.Is(m.Err(), errTotal) {
			t.Errorf("closing changed the cause: %v", m.Err())
		}
	})
}

func TestClose(t *testing.T) {
	m := newMeter(Limits{Total: time.Hour})
	m.Close()
	m.Close()
	if !isDone(m) || !errors.Is(m.Err(), errMeterClosed) || !errors.Is(m.In(1), errMeterClosed) {
		t.Errorf("%v", m.Err())
	}
	if d := m.Limits().Idle; d != defaultIdle {
		t.Errorf("idle %v", d)
	}
}

// TestAtOnce checks the limits with concurrent callers: never a byte or a
// connection more.
func TestAtOnce(t *testing.T) {
	const workers, bytes, most = 8, 10_000, 3
	m := newMeter(Limits{Connections: most, BytesIn: bytes})
	defer m.Close()
	var open, passed atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for !isDone(m) {
				release, err := m.Take()
				if err != nil {
					continue
				}
				if n := open.Add(1); n > most {
					t.Errorf("%d are open", n)
				}
				if m.In(7) == nil {
					passed.Add(7)
				}
				open.Add(-1)
				release()
			}
		})
	}
	all.Wait()
	c := m.Counts()
	if p := passed.Load(); p > bytes || p <= bytes-7 || c.In != p || c.Open != 0 {
		t.Errorf("%d passed, %+v", p, c)
	}
}
