package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// Loops go on after errors and panics, keep their interval, and end.
func TestLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, heard := test.NewNullLogger()
		log.SetOutput(io.Discard)
		ctx, end := context.WithCancel(t.Context())
		steady, own, fails, panics, slow := 0, 0, 0, 0, 0
		done := start(ctx, []Loop{
			{Name: "steady", Every: time.Minute, Do: func(context.Context) (time.Duration, error) { steady++; return 0, nil }},
			{Name: "own", Every: time.Hour, Do: func(context.Context) (time.Duration, error) { own++; return 10 * time.Second, nil }},
			{Name: "fails", Every: time.Minute, Do: func(context.Context) (time.Duration, error) {
				fails++
				return time.Nanosecond, errors.New("no")
			}},
			{Name: "panics", Every: time.Minute, Do: func(context.Context) (time.Duration, error) { panics++; panic("oh") }},
			{Name: "slow", Every: time.Minute, Within: time.Second, Do: func(ctx context.Context) (time.Duration, error) {
				slow++
				<-ctx.Done()
				return 0, ctx.Err()
			}},
		}, log)
		time.Sleep(9*time.Minute + 30*time.Second)
		end()
		done.Wait()
		if steady != 10 || own != 57 || fails != 10 || panics != 10 || slow != 10 {
			t.Errorf("rounds: steady %d, own %d, fails %d, panics %d, slow %d", steady, own, fails, panics, slow)
		}
		reported := map[string]int{}
		for _, e := range heard.AllEntries() {
			reported[e.Data["loop"].(string)]++
			if e.Level != logrus.WarnLevel || strings.Contains(e.Message, "steady") {
				t.Errorf("told %+v", e)
			}
		}
		if reported["fails"] != 1 || reported["steady"] != 0 {
			t.Errorf("told %v", reported)
		}
	})
}

// A round starts at once when it is due, and the time that it returns for the
// next one holds for a loop that paces its failures itself.
func TestLoopIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := test.NewNullLogger()
		log.SetOutput(io.Discard)
		ctx, end := context.WithCancel(t.Context())
		due := make(chan struct{}, 1)
		var at []time.Duration
		began := time.Now()
		paced := 0
		done := start(ctx, []Loop{
			{Name: "due", Every: time.Hour, Due: due, Do: func(context.Context) (time.Duration, error) {
				at = append(at, time.Since(began).Round(time.Second))
				return 0, nil
			}},
			{Name: "paced", Every: time.Hour, Paced: true, Do: func(context.Context) (time.Duration, error) {
				paced++
				return 10 * time.Second, errors.New("no")
			}},
		}, log)
		for range 2 {
			time.Sleep(20 * time.Second)
			due <- struct{}{}
		}
		time.Sleep(65 * time.Minute)
		end()
		done.Wait()
		if fmt.Sprint(at) != "[0s 20s 40s 1h0m40s]" || paced != 394 {
			t.Errorf("rounds at %v, and %d of the one that fails", at, paced)
		}
	})
}
