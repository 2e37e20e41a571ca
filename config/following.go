package config

import "sync"

// Following returns a function that tells what say makes of the settings that
// read returns. say is asked anew only when they are others than the last time,
// by their pointer; what it returned is handed out again otherwise, so nobody
// may change it. The function is safe for concurrent use if read is.
func Following[T any](read func() *Settings, say func(*Settings) (T, error)) func() (T, error) {
	var (
		mu    sync.Mutex
		asked bool
		of    *Settings
		value T
		err   error
	)
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if s := read(); !asked || s != of {
			value, err = say(s)
			asked, of = true, s
		}
		return value, err
	}
}
