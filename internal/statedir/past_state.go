package statedir

import "time"

const (
	// AfterBoot is how long the clock has to run evenly before it is trusted,
	// since it was first read after a start of the machine: how long the
	// machine was off is not known.
	afterBoot = time.Hour

	// AfterStep is how long it has to go evenly after it was seen to jump,
	// ahead or back. An administrator that has set it wrong has that long to
	// set it right.
	AfterStep = 24 * time.Hour

	// tolerance is how far a clock that goes evenly may come off: it is set by
	// small steps, and programs are stopped between two looks. Those who forget
	// give more time than that.
	tolerance = 5 * time.Minute
)

// A state is what is kept. Times are in milliseconds, those of the clock on the
// sandbox since the epoch.
type state struct {
	Past int64  `json:"past"` // has certainly passed
	Boot string `json:"boot"` // the start of the machine that Up is since
	Wall int64  `json:"wall"` // what the clock said when it was first looked at, or had jumped
	Up   int64  `json:"up"`   // at that moment
	Wait int64  `json:"wait"` // how long it has to go evenly from then on
}

func (s state) time() time.Time {
	if s.Past == 0 {
		return time.Time{}
	}
	return time.UnixMilli(s.Past)
}

// next is the state after a reading. The time that has passed goes on when it is
// least behind, and one millisecond at least.
func (s state) next(r reading, least time.Duration) state {
	begin := state{Past: s.Past, Boot: r.boot, Wall: r.wall, Up: r.up}
	lived := r.up - s.Up
	switch off := r.wall - s.Wall - lived; {
	case s.Boot != r.boot: // a jump that is not over yet is not over by a new start
		begin.Wait = max(s.Wait, afterBoot.Milliseconds())
		return begin
	case lived < 0, off > tolerance.Milliseconds(), off < -tolerance.Milliseconds():
		begin.Wait = AfterStep.Milliseconds()
		return begin
	case lived < s.Wait, r.wall-s.Past < max(1, least.Milliseconds()):
		return s
	}
	s.Past, s.Wait = r.wall, afterBoot.Milliseconds()
	return s
}
