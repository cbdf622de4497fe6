package probe

import (
	"fmt"
	"strings"
)

// A Mode is a way of attaching uprobes.
type Mode uint8

// The modes.
const (
	ModeAuto    Mode = iota // the best that the kernel has
	ModeSession             // one uprobe session link a library, Linux 6.13
	ModeMulti               // one uprobe_multi link for entries and one for returns, Linux 6.6 with the PID filter's fix of 6.10
	ModeSingle              // two perf events a function, Linux 5.15
)

var modeNames = [...]string{"auto", "session", "multi", "single"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseMode reads a mode's name.
func ParseMode(name string) (Mode, error) {
	for m, known := range modeNames {
		if known == name {
			return Mode(m), nil
		}
	}
	return ModeAuto, fmt.Errorf("%q is no way of probing (use one of %s)", name, strings.Join(modeNames[:], ", "))
}

// candidates lists the modes to try, best first.
func (m Mode) candidates() []Mode {
	if m == ModeAuto {
		return []Mode{ModeSession, ModeMulti, ModeSingle}
	}
	return []Mode{m}
}
