package host

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// A process in a time namespace reads other clocks than the kernel: its CLOCK_MONOTONIC and
// CLOCK_BOOTTIME are ahead of those of the host. Times in a log are those of the host, on which
// eBPF programs are, too.

// Ahead is how far clocks of a process are ahead of the host's, in ns. It may be negative.
type Ahead struct{ Monotonic, Boottime int64 }

// AheadOf returns how far the clocks of a process are ahead of the host's.
func AheadOf(pid int) Ahead { return aheadOf(fmt.Sprintf("/proc/%d", pid)) }

// own is how far the clocks of this process are ahead.
var own = sync.OnceValue(func() Ahead { return aheadOf("/proc/self") })

// aheadOf reads the offsets of the process whose folder in /proc is dir. The file there is about the
// namespace of its children, which the process itself joins with its next exec.
func aheadOf(dir string) (a Ahead) {
	current, err1 := os.Readlink(dir + "/ns/time")
	children, err2 := os.Readlink(dir + "/ns/time_for_children")
	text, err := procfs.Read(dir+"/timens_offsets", procfs.MaxFacts)
	if err != nil {
		return Ahead{} // the kernel has no time namespaces
	}
	if err1 == nil && err2 == nil && current != children {
		return Ahead{}
	}
	for line := range strings.Lines(string(text)) {
		var clock string
		var seconds, ns int64
		if n, _ := fmt.Sscan(line, &clock, &seconds, &ns); n < 3 {
			continue
		}
		switch at := seconds*int64(time.Second) + ns; clock {
		case "monotonic":
			a.Monotonic = at
		case "boottime":
			a.Boottime = at
		}
	}
	return a
}
