// Package uprobe attaches eBPF programs to functions of one process, in the best way that the
// kernel has. Input: a process, a file, and the offsets of functions with a cookie each. Output:
// closers that remove the probes, or errors that say which right is missing or which kernel is
// needed.
package uprobe

import "fmt"

// A Mode is a way of attaching uprobes.
type Mode uint8

// The modes.
const (
	Auto    Mode = iota // the best that the kernel has
	Session             // one uprobe session link per library, Linux 6.13
	Multi               // one uprobe_multi link for entries and one for returns, Linux 6.6 with the fix of the PID filter in 6.10
	Single              // two perf events per function, Linux 5.15
)

var modeNames = [...]string{"auto", "session", "multi", "single"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Candidates lists the modes to try, best first.
func (m Mode) Candidates() []Mode {
	if m == Auto {
		return []Mode{Session, Multi, Single}
	}
	return []Mode{m}
}
