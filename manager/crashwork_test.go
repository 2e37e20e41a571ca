package manager_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// childWork names the file with the operations that a child carries out, over
// and over.
const childWork = "SANDBOX_TEST_CHILD_WORK"

// childPasses is how many operations of a child pass: more than anybody waits
// for, and few enough that a child which is not killed for a while does not use
// up what others are to have.
const childPasses = 40

// childOperates is the child. It says "ok" for each operation that has passed,
// and waits to be killed when enough have.
func childOperates() {
	r := &rig{t: childTB{}, dir: os.Getenv(childState), log: &logBuffer{}, clock: &clock{}, limits: testenv.Patient()}
	r.connect()
	store, err := evidence.Open(r.state.Evidence(), evidence.Options{})
	must(r.t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctl, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{State: r.state, Log: log, Sinks: []recorder.Sink{recorder.NewFile("file", store)}})
	must(r.t, err)
	r.change = func(o *manager.Options) { o.Control = func() (*manager.Control, error) { return &ctl.Control, nil } }
	m := r.manager(os.Getenv(childSet))
	text, err := os.ReadFile(os.Getenv(childWork))
	must(r.t, err)
	var ops []manager.Operation
	must(r.t, json.Unmarshal(text, &ops))
	var passed atomic.Int64
	together(len(ops), func(i int) {
		for passed.Load() < childPasses {
			if done, err := m.Operate(context.Background(), ops[i]); done.OK {
				passed.Add(1)
				fmt.Println("ok")
			} else {
				fmt.Println(err)
			}
		}
		select {}
	})
}

// together calls fn n times at once.
func together(n int, fn func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	all.Wait()
}
