package filing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/daemon/filing"
	"github.com/bulkhead-dev/sandbox/daemon/filing/form"
	"github.com/bulkhead-dev/sandbox/fsbridge/fsinfo"
)

// A wide folder has many entries, which are megabytes when they are told.
type wide struct{ sandbox.Files }

const entries = 3000

func (wide) ReadDir(context.Context, string) ([]fs.DirEntry, error) {
	var infos []fsinfo.Info
	for i := range entries {
		infos = append(infos, fsinfo.New(fmt.Sprint(i)+strings.Repeat("\x01", 240), 0o100644, 0, time.Time{}))
	}
	return fsinfo.Entries(infos), nil
}

// A slow client takes its time for each piece of an answer.
type slow struct {
	*httptest.ResponseRecorder
	rest func()
}

func (s slow) Write(b []byte) (int, error) {
	s.rest()
	return s.ResponseRecorder.Write(b)
}

// list lists the folder for a client, and reports whether it was cut off, and
// whether what lies in the folder was let go of.
func list(w http.ResponseWriter) (cut, done bool) {
	mux := http.NewServeMux()
	filing.Mount(mux, "/files", func(r *http.Request) (sandbox.Files, context.Context, func(), error) {
		return wide{}, r.Context(), func() { done = filing.Lists(r) }, nil
	}, nil)
	defer func() { cut = recover() == http.ErrAbortHandler }()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/files/folder?path=/workspace", nil))
	return
}

// TestSlowReadersAreCutOff holds that a listing is not kept in memory for as long
// as a client likes, and that one which takes it slowly has it all.
func TestSlowReadersAreCutOff(t *testing.T) {
	for each, cuts := range map[time.Duration]bool{time.Second: false, 20 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			w := slow{httptest.NewRecorder(), func() { time.Sleep(each) }}
			cut, done := list(w)
			if cut != cuts || !done || time.Since(begun) > 3*time.Minute {
				t.Errorf("%s for each piece: cut off is %v, ended is %v after %s", each, cut, done, time.Since(begun))
			}
			var all form.Files
			if err := json.Unmarshal(w.Body.Bytes(), &all); !cuts && (err != nil || len(all.Items) != entries) {
				t.Errorf("%d entries, %v", len(all.Items), err)
			}
		})
	}
}
