package logtest

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
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

// PrintStatus prints the kernel's status of this process, for Peak in the process that started it.
func PrintStatus(t testing.TB) {
	t.Helper()
	fmt.Printf("%s", must.Get(os.ReadFile("/proc/self/status"))(t))
}

// Peak finds in the status of a process how much memory was resident at most, in KiB. What the kernel tells a parent is
// no less than the parent's own.
func Peak(t testing.TB, status []byte) (kib int) {
	t.Helper()
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	must.Get(fmt.Sscan(rest, &kib))(t)
	return kib
}
