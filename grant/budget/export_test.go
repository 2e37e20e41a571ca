package budget

// The times of a meter, for tests outside of the package.
const (
	MeterInterval = meterInterval
	Patience      = patience
	Silence       = silence
)
