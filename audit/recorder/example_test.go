package recorder_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
)

func Example() {
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	store, err := evidence.Open(filepath.Join(state, "evidence"), evidence.Options{})
	if err != nil {
		log.Fatal(err)
	}
	w, err := recorder.Open(recorder.Options{
		Sinks: []recorder.Sink{
			recorder.NewFile("file", store),
			recorder.NewCallback("print", func(_ context.Context, r evidence.Record) { fmt.Println(r.Tenant, r.Type) }),
		},
		Writers: filepath.Join(state, "writers"), Log: logrus.New(),
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	e, err := w.Begin(ctx, evidence.Begin{Tenant: "acme", Tool: "write", Kind: "fs.write"}, true)
	if err != nil {
		log.Fatal(err) // evidence is required and cannot be written: nothing runs
	}
	if err := e.End(ctx, evidence.End{Status: evidence.OK}); err != nil {
		log.Print(err)
	}
	if err := w.Close(); err != nil {
		log.Print(err)
	}
	for o, err := range evidence.Newest(store.Query(ctx, evidence.Filter{Tenant: "acme"})) {
		if err != nil {
			log.Fatal(err)
		}
		if o.Operation() {
			fmt.Println(o.Begin.Tool, o.End.Status)
		}
	}
	// Output:
	// acme begin
	// acme end
	// write ok
}
