package api

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// travel sends err as an answer and reads it on the other side.
func travel(t *testing.T, err error) (*sandbox.Error, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	Write(w, err)
	got, ok := errors.AsType[*sandbox.Error](Read("read", w.Code, w.Body.Bytes()))
	if !ok {
		t.Fatalf("%v came back as no error of ours", err)
	}
	return got, w
}

func TestFieldsTravel(t *testing.T) {
	want := sandbox.Error{
		Code: sandbox.CodeBusy, Op: "remove", Field: "name", Resource: "sbx-a", Message: "in use", Hint: "wait", Retryable: true,
	}
	got, w := travel(t, &want)
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if w.Code != http.StatusConflict || w.Header().Get("Content-Type") != mediaType {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestCausesTravel holds that the causes for which callers test with errors.Is
// reach the other side.
func TestCausesTravel(t *testing.T) {
	for _, tt := range []struct {
		err error
		is  []error
		not []error
	}{
		{fsbridge.NewError("stat", "/a", syscall.ENOENT), []error{fs.ErrNotExist, syscall.ENOENT}, []error{fs.ErrExist}},
		{fsbridge.NewError("mkdir", "/a", syscall.EEXIST), []error{fs.ErrExist}, []error{fs.ErrNotExist}},
		{fsbridge.NewError("rm", "/a", syscall.ENOTEMPTY), []error{fs.ErrExist, syscall.ENOTEMPTY}, nil},
		{fsbridge.NewError("write", "/a", syscall.EROFS), []error{fs.ErrPermission, syscall.EROFS}, nil},
		{fsbridge.Escape("read", "/a"), []error{fs.ErrPermission}, nil},
		{&sandbox.Error{Code: sandbox.CodeExecution, Message: "no program", Err: fs.ErrNotExist}, []error{fs.ErrNotExist}, []error{fs.ErrPermission}},
		{&sandbox.Error{Code: sandbox.CodeBusy, Message: "listen", Err: syscall.EADDRINUSE}, []error{syscall.EADDRINUSE}, []error{fs.ErrExist}},
		{&sandbox.Error{Code: sandbox.CodeExecution, Message: "else", Err: errors.New("else")}, nil, []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission}},
	} {
		got, _ := travel(t, tt.err)
		if sandbox.CodeOf(got) != sandbox.CodeOf(tt.err) {
			t.Errorf("%v came back with %s", tt.err, got.Code)
		}
		for _, is := range tt.is {
			if !errors.Is(got, is) {
				t.Errorf("%v came back as %v, which is not %v", tt.err, got, is)
			}
		}
		for _, not := range tt.not {
			if errors.Is(got, not) {
				t.Errorf("%v came back as %v, which is %v", tt.err, got, not)
			}
		}
		if a, b := tt.err.Error(), got.Error(); a != b {
			t.Errorf("the text changed from %q to %q", a, b)
		}
	}
}

// TestInternalTellsNothing holds that the message of an unexpected error is not
// sent.
func TestInternalTellsNothing(t *testing.T) {
	for _, err := range []error{
		errors.New("dial /root/secret"),
		&sandbox.Error{Code: sandbox.CodeInternal, Message: "/root/secret", Resource: "secret", Hint: "secret", Err: errors.New("secret")},
	} {
		got, w := travel(t, err)
		if got.Code != sandbox.CodeInternal || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v was told as %s", err, w.Body)
		}
	}
}

// TestStrangers holds that an answer of another server is never taken for one of
// the daemon, least of all for one that says that something does not exist.
func TestStrangers(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   sandbox.Code
	}{
		{404, "<html>not found</html>", sandbox.CodeUnavailable},
		{404, `{"message":"not found"}`, sandbox.CodeUnavailable},
		{404, `{"code":"not_found"}`, sandbox.CodeUnavailable},
		{401, "", sandbox.CodePermissionDeny},
		{502, "bad gateway", sandbox.CodeUnavailable},
		{200, "", sandbox.CodeUnavailable},
		{404, `{"code":"SANDBOX.NOT_FOUND","detail":"there is none"}`, sandbox.CodeNotFound},
	} {
		if err := Read("get", tt.status, []byte(tt.body)); sandbox.CodeOf(err) != tt.want {
			t.Errorf("%d %q is read as %v, want %s", tt.status, tt.body, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(404, []byte(`{"code":"SANDBOX.NOT_FOUND","detail":"\u001b[2J","cause":"ENOENT"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		err := Read("get", status, body)
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok {
			t.Fatalf("%T", err)
		}
		for _, s := range []string{e.Message, e.Hint, e.Resource, e.Field, e.Op} {
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(s) > 64<<10 {
				t.Errorf("text of the other side comes through as %.100q", s)
			}
		}
		if _, err := json.Marshal(Of(err)); err != nil {
			t.Error(err)
		}
	})
}
