package logtest

import (
	"iter"
	"os"
)

// Seeds returns the seeds of a random test: 0 to n-1 where CUDATRACE_LONG is set, else one of so many of them.
func Seeds(n, of uint64) iter.Seq[uint64] {
	if os.Getenv("CUDATRACE_LONG") != "" {
		of = 1
	}
	return func(yield func(uint64) bool) {
		for seed := uint64(0); seed < n && yield(seed); seed += of {
		}
	}
}
