package service

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/bulkhead-dev/sandbox/internal/testenv/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Loops go on whatever happens in them, keep their pace, and end.
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
		told := map[string]int{}
		for _, e := range heard.AllEntries() {
			told[e.Data["loop"].(string)]++
			if e.Level != logrus.WarnLevel || strings.Contains(e.Message, "steady") {
				t.Errorf("told %+v", e)
			}
		}
		if told["fails"] != 1 || told["steady"] != 0 {
			t.Errorf("told %v", told)
		}
	})
}
