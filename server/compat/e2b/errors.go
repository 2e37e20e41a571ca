package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/bulkhead-dev/sandbox"
)

// asFault returns err as an error of the protocol. One that does not come from /v1
// and is no refusal of the translator is internal, without its text.
func asFault(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return &fault{status: http.StatusRequestEntityTooLarge, message: "the body of the request is too large"}
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{status: http.StatusGatewayTimeout, message: "the request took too long"}
	case errors.Is(err, context.Canceled):
		return &fault{status: http.StatusServiceUnavailable, message: "the request was ended"}
	}
	return &fault{status: http.StatusInternalServerError, message: "something went wrong inside"}
}

// bad returns the error for a request that is not as the protocol has it.
func bad(field, message string) *fault {
	if field != "" {
		message = field + ": " + message
	}
	return &fault{status: http.StatusBadRequest, code: sandbox.CodeValidation, field: field, message: message}
}

// unsupported returns the error for what this server does not have.
func unsupported(what string) *fault {
	return &fault{status: http.StatusNotImplemented, code: sandbox.CodeUnsupported, message: what + " is not supported by this server"}
}

// refuse writes an error of the control plane.
func refuse(w http.ResponseWriter, err error) {
	f := asFault(err)
	status := f.status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest // the protocol's
	}
	h := w.Header()
	for name, values := range f.header {
		h[name] = values
	}
	write(w, status, map[string]any{"code": status, "message": f.message})
}

// refuseEnvd writes an error of the data plane: where the sandbox does not answer,
// that of E2B's proxy.
func refuseEnvd(w http.ResponseWriter, r *http.Request, err error) {
	if !isRPC(r) {
		if gone(err, callOf(r.Context())) {
			err = &fault{status: http.StatusBadGateway, message: "The sandbox was not found"}
		}
		refuse(w, err)
		return
	}
	e := rpcError(r.Context(), err)
	_ = connect.NewErrorWriter(connect.WithCodec(codec{})).Write(w, r, e)
}

func isRPC(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/process.Process/") || strings.HasPrefix(r.URL.Path, "/filesystem.Filesystem/")
}

// gone reports whether err says that the sandbox of the call is not there, rather
// than something in it.
func gone(err error, c *call) bool {
	var f *fault
	return errors.As(err, &f) && f.code == sandbox.CodeNotFound && c != nil && c.name != "" && f.about == c.name
}

// rpcError returns err as an error of Connect RPC.
func rpcError(ctx context.Context, err error) *connect.Error {
	var already *connect.Error
	if errors.As(err, &already) {
		return already
	}
	if gone(err, callOf(ctx)) {
		return connect.NewError(connect.CodeUnavailable, errors.New("the sandbox was not found"))
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the time of the request is over"))
	}
	f := asFault(err)
	return connect.NewError(rpcCode(f), errors.New(f.message))
}

func rpcCode(f *fault) connect.Code {
	switch f.code {
	case sandbox.CodeUnsupported:
		return connect.CodeUnimplemented
	case sandbox.CodeBusy:
		return connect.CodeFailedPrecondition
	}
	switch f.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return connect.CodeInvalidArgument
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusNotFound:
		return connect.CodeNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return connect.CodeFailedPrecondition
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return connect.CodeResourceExhausted
	case http.StatusNotImplemented:
		return connect.CodeUnimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return connect.CodeUnavailable
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeInternal
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the translator's own structs
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data) // an error means that the client has gone
}
