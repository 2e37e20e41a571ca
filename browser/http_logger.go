package browser

import (
	"io"

	"github.com/sirupsen/logrus"
)

// loggerHttp returns l, or a logger that discards everything if l is nil.
func loggerHttp(l logrus.FieldLogger) logrus.FieldLogger {
	if l == nil {
		silent := logrus.New()
		silent.SetOutput(io.Discard)
		return silent
	}
	return l
}
