package logtest

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// Main runs the tests of a package that leaves much garbage: a fifth of their time went to the collector. Benchmarks,
// and processes that tests start with the memory limit of cudatrace, collect as the program does.
func Main(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(768 << 20)
	}
	m.Run()
}
