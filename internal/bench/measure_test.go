//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// TestOrderIsFair holds that over the rounds of a cycle each way has each
// place equally often, and that no way always follows the same other one.
func TestOrderIsFair(t *testing.T) {
	for n := 1; n <= 5; n++ {
		places := map[[2]int]int{}
		before := map[int][]int{}
		for round := range 2 * n {
			turn := order(round, n)
			if sorted := slices.Sorted(slices.Values(turn)); !slices.Equal(sorted, slices.Sorted(slices.Values(order(0, n)))) {
				t.Fatalf("round %d of %d ways is %v", round, n, turn)
			}
			for place, way := range turn {
				places[[2]int{place, way}]++
				if place > 0 && !slices.Contains(before[way], turn[place-1]) {
					before[way] = append(before[way], turn[place-1])
				}
			}
		}
		for key, times := range places {
			if times != 2 {
				t.Errorf("of %d ways, %d is %d times in place %d", n, key[1], times, key[0])
			}
		}
		for way, others := range before {
			if n > 2 && len(others) < 2 {
				t.Errorf("of %d ways, %d always follows %v", n, way, others)
			}
		}
	}
}

func TestRounds(t *testing.T) {
	e := Effort{Percent: 12, Least: 3}
	for full, want := range map[int]int{0: 3, 20: 3, 100: 12} {
		if got := e.rounds(full); got != want {
			t.Errorf("%d give %d rounds, want %d", full, got, want)
		}
	}
}

// clockwork is an operation whose samples take known times.
func clockwork(cold bool) (op operation, trace *[]string) {
	trace = new([]string)
	takes := func(name string, d time.Duration) sample {
		return timed(
			func(context.Context) error { *trace = append(*trace, name); time.Sleep(d); return nil },
			func(context.Context) error { time.Sleep(time.Hour); return nil }, // must not count
		)
	}
	return operation{name: "op", rounds: 2, cold: cold, ways: []way{
		{name: "a", turn: 1, take: takes("a", 2*time.Millisecond)},
		{name: "b", turn: 2, take: takes("b", 3*time.Millisecond)},
		{name: "c", lacks: "there is none"},
	}}, trace
}

func TestMeasureTakesTurns(t *testing.T) {
	tests := []struct {
		name string
		cold bool
		want string
	}{
		{"the first of a turn warms up", false, "aa bbb aa bbb bbb aa"},
		{"all of a turn count", true, "a bb a bb bb a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, trace := clockwork(tt.cold)
				s := &Session{Effort: Effort{Percent: 100, Least: 2}, Log: t.Logf}
				results, err := s.measure(t.Context(), op)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := strings.Join(*trace, ""), strings.ReplaceAll(tt.want, " ", ""); got != want {
					t.Errorf("the turns are %s, want %s", got, want)
				}
				for i, want := range []struct {
					n    int
					took time.Duration
				}{{2, 2 * time.Millisecond}, {4, 3 * time.Millisecond}, {0, 0}} {
					if got := results[i]; got.N != want.n || got.P50 != want.took || got.Max != want.took {
						t.Errorf("way %s has %+v, want %d of %v", got.Way, got.Summary, want.n, want.took)
					}
				}
				if results[2].Unsupported != "there is none" {
					t.Errorf("the way that is not supported is %+v", results[2])
				}
			})
		})
	}
}

func TestMeasureEndsEarlyOnASlowMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := operation{name: "slow", rounds: 1000, cold: true, ways: []way{
			{name: "a", turn: 1, take: timed(func(context.Context) error { time.Sleep(10 * time.Second); return nil }, nil)},
		}}
		s := &Session{Effort: Effort{Percent: 100, Least: 3, Within: 45 * time.Second}, Log: t.Logf}
		results, err := s.measure(t.Context(), op)
		if err != nil || results[0].N != 4 {
			t.Errorf("%d samples, %v", results[0].N, err)
		}
	})
}

func TestMeasureStopsAtAFailure(t *testing.T) {
	boom := errors.New("boom")
	tests := map[string]sample{
		"the operation fails":     timed(func(context.Context) error { return boom }, nil),
		"its result is wrong":     timed(func(context.Context) error { return nil }, func(context.Context) error { return boom }),
		"one of many callers":     together(4, 1, failsOnce(boom)),
		"the context has an end":  nil,
		"the sample hangs for us": timed(func(ctx context.Context) error { <-ctx.Done(); return boom }, nil),
	}
	for name, take := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if take == nil {
					cancel()
					take = timed(func(context.Context) error { t.Error("a sample was taken"); return nil }, nil)
				}
				s := &Session{Effort: Effort{Percent: 100, Least: 1}, Log: t.Logf}
				_, err := s.measure(ctx, operation{name: "op", rounds: 1, ways: []way{{name: "a", turn: 1, take: take}}})
				if !errors.Is(err, boom) && sandbox.CodeOf(err) != sandbox.CodeTimeout || !strings.Contains(fmt.Sprint(err), "op (a)") {
					t.Errorf("it says %v", err)
				}
			})
		})
	}
}

// failsOnce is an operation that fails for one of its callers.
func failsOnce(err error) func(context.Context) error {
	once := make(chan error, 1)
	once <- err
	return func(context.Context) error {
		select {
		case err := <-once:
			return err
		default:
			return nil
		}
	}
}

func TestTogetherCountsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times, err := together(8, 3, func(context.Context) error { time.Sleep(time.Second); return nil })(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]time.Duration{time.Second}, 24); !reflect.DeepEqual(times, want) {
			t.Errorf("got %v", times)
		}
	})
}

func TestReadAll(t *testing.T) {
	tests := []struct {
		name, text string
		buf        int
		ok         bool
	}{
		{"empty", "", 3, true},
		{"fits", "ab", 3, true},
		{"fills", "abc", 3, false}, // it could have been longer
		{"longer", "abcd", 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			buf := make([]byte, tt.buf)
			n, err := readAll(strings.NewReader(tt.text), buf)
			if tt.ok != (err == nil) || tt.ok && string(buf[:n]) != tt.text {
				t.Errorf("%q, %v", buf[:n], err)
			}
		})
	}
	if _, err := readAll(io.MultiReader(strings.NewReader("a"), failing{}), make([]byte, 9)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a failing reader gives %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestSinkTakesNoMoreThanItHolds(t *testing.T) {
	s := &sink{buf: make([]byte, 4)}
	if n, err := s.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Write([]byte("de")); n != 1 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%d, %v", n, err)
	}
	if !bytes.Equal(s.buf, []byte("abcd")) {
		t.Errorf("it holds %q", s.buf)
	}
}

func TestSilent(t *testing.T) {
	some := func(text string) *bytes.Buffer { return bytes.NewBufferString(text) }
	tests := []struct {
		name     string
		code     int
		out, err *bytes.Buffer
		ok       bool
	}{
		{"nothing", 0, some(""), some(""), true},
		{"exit status", 1, some(""), some(""), false},
		{"output", 0, some("x"), some(""), false},
		{"errors", 0, some(""), some("x"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := silent(tt.code, tt.out, tt.err, nil); tt.ok != (err == nil) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
