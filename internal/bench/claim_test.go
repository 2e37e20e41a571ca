//go:build linux

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAtOnce holds that all are timed from one moment on.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times, err := atOnce(3, func(i int) (time.Time, error) {
			time.Sleep(time.Duration(i+1) * time.Second)
			return time.Now(), nil
		})
		for i, got := range times {
			if want := time.Duration(i+1) * time.Second; got != want {
				t.Errorf("%d took %v, want %v", i, got, want)
			}
		}
		if err != nil || len(times) != 3 {
			t.Errorf("%v, %v", times, err)
		}
	})
	boom := errors.New("boom")
	if _, err := atOnce(2, func(i int) (time.Time, error) {
		if i == 1 {
			return time.Time{}, boom
		}
		return time.Now(), nil
	}); !errors.Is(err, boom) {
		t.Errorf("it says %v", err)
	}
}

// TestMeasureCountsWhatWasReported holds that samples of before the rounds count
// once, whatever the rounds.
func TestMeasureCountsWhatWasReported(t *testing.T) {
	s := &Session{Effort: Effort{Percent: 100, Least: 2}, Log: t.Logf}
	results, err := s.measure(context.Background(), operation{name: "op", rounds: 2, settle: 1, ways: []way{
		{name: "a", reported: []time.Duration{1, 2, 3}},
	}})
	if err != nil || results[0].N != 3 || results[0].P50 != 2 {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var f first
		for range 2 {
			time.Sleep(time.Second)
			if n, err := f.Write([]byte("ab")); n != 2 || err != nil {
				t.Fatal(n, err)
			}
		}
		if f.at.Sub(begun) != time.Second {
			t.Errorf("the first was after %v", f.at.Sub(begun))
		}
	})
}
