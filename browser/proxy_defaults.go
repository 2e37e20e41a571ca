package browser

import "time"

// proxyOp names the operation in errors.
const proxyOp = "bridge to browser"

// orDefault returns l with defaults for fields that are not set.
func (l ProxyLimits) orDefault() ProxyLimits {
	set(&l.Clients, 64)
	set(&l.Conns, 256)
	set(&l.HeaderBytes, 16<<10)
	set(&l.HeaderTimeout, 5*time.Second)
	set(&l.Idle, 30*time.Second)
	set(&l.Open, time.Minute)
	set(&l.Answer, 15*time.Second)
	set(&l.AnswerBytes, 8<<20)
	set(&l.WrongTokens, 30)
	return l
}

func set[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
