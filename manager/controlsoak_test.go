//go:build linux

package manager_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// A soak is what came of many operations.
type soak struct {
	*controlled
	mu    sync.Mutex
	codes map[sandbox.Code]int
	ids   map[string]bool // whether it has passed
	loud  map[string]int  // what is UNKNOWN.INTERNAL, or leaks, and how often
}

func (s *soak) heard(op manager.Operation, done manager.Performed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[done.Code]++
	if _, given := s.ids[done.ID]; given || done.ID == "" {
		s.t.Errorf("the id %q was given before", done.ID)
	}
	s.ids[done.ID] = done.OK
	if done.Code == sandbox.CodeInternal {
		s.loud[fmt.Sprintf("%s: %.300v", op.Do.Kind, err)]++
	}
	reported := done
	reported.Output = operation.Output{} // which is the tool's own
	if text, err := json.Marshal(reported); err != nil || !done.OK && (strings.Contains(string(text), someName) || strings.Contains(string(text), someContent)) {
		s.loud[fmt.Sprintf("leak of %s: %.300s, %v", op.Do.Kind, text, err)]++
	}
	if done.OK != (err == nil) || done.OK != (done.Code == "") {
		s.t.Errorf("%+v: %v", done, err)
	}
}

// operationsOfSoak is how many there are; SANDBOX_TEST_SOAK says otherwise.
func operationsOfSoak() int { return testenv.Rounds(320, 320, 5_000) }

// TestSoak carries out thousands of operations of all sorts, with grants
// and manifests of all sorts, while grants are revoked, calls ended and
// settings changed. What is refused is refused in the words of the table, and
// everything is on record.
func TestSoak(t *testing.T) {
	t.Parallel()
	const workers = 16
	total := operationsOfSoak()
	if n, err := strconv.Atoi(os.Getenv("SANDBOX_TEST_SOAK")); err == nil {
		total = max(n, total)
	}
	programs := map[string]fake.Program{"yes": func(p *fake.Proc) int { return 0 }}
	var settings []*config.Settings
	var now atomic.Int64
	c, g := newControlledFake(t, programs, "", func(o *manager.Options, c *controlled) {
		for _, extra := range []string{"", `, "limits": {"timeout": "20s"}`, `, "budgets": {"session": {"calls": 1000000}}`, `, "filesystem": {"denyRead": ["/secret"]}`, `, "requireEvidence": true`, `, "commands": {"block": ["echo:*"]}`, `, "commands": {"block": ["echo ` + someContent + `:*", "echo a"]}`} {
			parsed, err := config.Parse("test", []byte(c.settingsFor(extra)))
			must(t, err)
			settings = append(settings, parsed)
		}
		o.Reload = func() (*config.Settings, error) { return settings[int(now.Load())%len(settings)], nil }
	})
	s := &soak{controlled: c, codes: map[sandbox.Code]int{}, ids: map[string]bool{}, loud: map[string]int{}}
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	dealer := &babbler{Rand: rand.New(rand.NewPCG(seed, 0)), c: c}
	began := time.Now()
	turns := min(20, total/64)
	for range turns {
		var deals []manager.Operation
		for range 60 {
			deals = append(deals, dealer.deal())
		}
		together(workers, func(i int) {
			b := &babbler{Rand: rand.New(rand.NewPCG(seed, uint64(now.Add(1)))), c: c}
			for range total / turns / workers {
				s.step(b, deals)
			}
		})
	}
	took := time.Since(began)
	must(t, c.Manager.Close())
	must(t, c.ctl.Recorder.Close())
	s.paired(g)
	t.Logf("%d operations in %v: %v", len(s.ids), took.Round(time.Millisecond), s.codes)
	for text, n := range s.loud {
		t.Errorf("%d times %s", n, text)
	}
	if n := s.codes[sandbox.CodeInternal]; n*1000 >= len(s.ids) {
		t.Errorf("%d of %d are UNKNOWN.INTERNAL", n, len(s.ids))
	}
	if s.codes[""] < len(s.ids)/20 {
		t.Errorf("only %d of %d passed, which shows little", s.codes[""], len(s.ids))
	}
}

// step is one operation, and now and then something beside it.
func (s *soak) step(b *babbler, deals []manager.Operation) {
	op := pick(b, deals...)
	op.Do, op.Keep = b.do(), pick(b, int64(0), b.number())
	op.RequestID, op.TraceParent = pick(b, "", "r"), pick(b, "", "00-x")
	ctx, done := context.WithTimeout(context.Background(), pick(b, time.Minute, time.Minute, time.Minute, time.Millisecond))
	defer done()
	if b.once(500) {
		g := pick(b, deals...).Grant
		_ = s.ctl.Revoke(g) // of a name that is none, it is refused
	}
	if b.once(500) {
		g := pick(b, deals...).Grant
		_ = s.EndCall(g.Tenant, g.ID)
	}
	did, err := s.Operate(ctx, op)
	s.heard(op, did, err)
}

// paired holds that each operation has one begin and one end on record, or, of
// those that were refused, is one of those that were counted because they came
// too fast; that the chains verify, and that nothing on record is anybody's content.
func (s *soak) paired(g *guarded) {
	must(s.t, s.evidence.Flush(context.Background()))
	count, counted := map[string][2]int{}, 0
	for r, err := range s.evidence.Query(context.Background(), evidence.Filter{AllTenants: true}) {
		must(s.t, err)
		n := count[r.Command]
		switch {
		case r.Type == evidence.TypeBegin && r.Omitted == 0:
			n[0]++
		case r.Type == evidence.TypeEnd && r.Omitted == 0:
			n[1]++
		case r.Type == evidence.TypeBegin, r.Type == evidence.TypeEnd:
			counted += int(r.Omitted)
		}
		count[r.Command] = n
	}
	wrong, missing := 0, 0
	for id, passed := range s.ids {
		switch n := count[id]; {
		case n == [2]int{} && !passed:
			missing++
		case n != [2]int{1, 1}:
			wrong++
		}
	}
	if wrong > 0 || counted != 2*missing {
		s.t.Errorf("%d operations have not one begin and one end each; %d are not on record, and %d records were counted", wrong, missing, counted)
	}
	s.t.Logf("%d refusals were counted", missing)
	s.verified()
	for _, name := range s.grep(someContent) {
		s.t.Errorf("contents are in %s", name)
	}
	if strings.Contains(s.log.String()+g.log.String(), someContent) {
		s.t.Error("contents are in the log")
	}
}
