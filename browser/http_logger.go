package browser

import (
	"io"

	"github.com/sirupsen/logrus"
)

// Logger is l, or one that says nothing where l is nil.
func loggerHttp(l logrus.FieldLogger) logrus.FieldLogger {
	if l == nil {
		silent := logrus.New()
		silent.SetOutput(io.Discard)
		return silent
	}
	return l
}
