//go:build linux

package server

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// warmThreads is how many threads the runtime needs, and gets at the start
	// where commands could take the room for them: see makeRoom. It
	// never gives a thread back, and takes a new one only when all others
	// are busy or inside a system call. Nothing here stays inside one for
	// long: sockets, pipes and terminals are polled, forks are one at a
	// time, walks over /proc are two at a time and one more that looks at what
	// commands use, and file operations, which
	// a slow disk may hold up, are maxFileWorkers at a time, and closing a
	// file is maxFileClosers at a time. When user code
	// has used up the process limit, a runtime that needed one more thread
	// would abort.
	warmThreads = 11 + maxFileWorkers + maxFileClosers
	// observerThreads are some more where commands are observed: following
	// the paths that they try may wait for a slow disk too.
	observerThreads = maxResolvers + maxOpening
	// maxProcs bounds how many of them run Go code at once.
	maxProcs = 4
	// gcPercent makes the smallest heap that is collected 1 MiB.
	gcPercent = 25
	// collectAfter is how long the guest leaves its heap alone at the start. It
	// reaches 1 MiB by the time that the first command starts, which would wait
	// for the collection; a sandbox for one command has ended before there is one.
	collectAfter = time.Second
)

// warmUp makes so many threads, of which the process never needs more. After a
// time it has the heap be collected early.
func warmUp(threads int) {
	time.AfterFunc(collectAfter, func() { debug.SetGCPercent(gcPercent) })
	if n := runtime.GOMAXPROCS(0); n > maxProcs { // setting it stops the world
		runtime.GOMAXPROCS(maxProcs)
	}
	var meet, done sync.WaitGroup
	meet.Add(threads)
	done.Add(threads)
	for range threads {
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			meet.Done()
			meet.Wait() // all of them hold a thread now
			runtime.UnlockOSThread()
		}()
	}
	done.Wait()
}

// rest gives memory back after work.
func rest() { debug.FreeOSMemory() }
