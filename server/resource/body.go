package resource

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// Raw reads the whole body of the request, within the bound of the route.
func (c *Call) Raw() ([]byte, error) {
	if c.Request.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(c.Request.Body)
	return data, BodyErr(err)
}

// BodyErr returns the error for a body that could not be read, nil for nil.
func BodyErr(err error) error {
	var (
		large *http.MaxBytesError
		known *sandbox.Error
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return TooLarge(large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Fault{Status: http.StatusRequestTimeout, Close: true, Err: &sandbox.Error{Code: sandbox.CodeTimeout, Op: "read request", Message: "the body came too slowly", Retryable: true}}
	}
	if errors.As(err, &known) {
		return &Fault{Close: true, Err: err}
	}
	return &Fault{Status: http.StatusUnprocessableEntity, Close: true, Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "the body could not be read to its end"}}
}

// accepts reports whether a list of media ranges contains content by name, with
// a quality other than 0.
func accepts(headers []string, content string) bool {
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil || media != content {
				continue
			}
			if q := params["q"]; q != "0" && q != "0.0" && q != "0.00" && q != "0.000" {
				return true
			}
		}
	}
	return false
}
