package record

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// readClocks takes one reading of the host's clocks. Monotonic is the middle of
// two readings around the others.
func readClocks() tracelog.Clock {
	before := clock(unix.CLOCK_MONOTONIC)
	c := tracelog.Clock{Realtime: clock(unix.CLOCK_REALTIME), Boottime: clock(unix.CLOCK_BOOTTIME)}
	c.Monotonic = before + (clock(unix.CLOCK_MONOTONIC)-before)/2
	return c
}

func clock(id int32) uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // these clocks exist on every Linux; zero reads as "not known"
	}
	return uint64(ts.Nano())
}

func now() uint64 { return clock(unix.CLOCK_MONOTONIC) }

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// describeProcess reads what /proc says of a process. What can't be read, as of
// a process that has just ended, stays empty.
func describeProcess(pid uint32) tracelog.Process {
	dir := "/proc/" + strconv.Itoa(int(pid))
	p := tracelog.Process{PID: pid, Start: now()}
	p.Exe, _ = os.Readlink(dir + "/exe")
	p.Exe = strings.TrimSuffix(p.Exe, " (deleted)")
	cmdline, _ := os.ReadFile(dir + "/cmdline")
	p.Args = strings.TrimSuffix(string(cmdline), "\x00")
	p.PPID = parentOf(dir)
	return p
}

// parentOf reads the parent's PID: the second field after the command, which is
// in brackets and may hold anything.
func parentOf(dir string) uint32 {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.ParseUint(fields[1], 10, 32)
	return uint32(ppid)
}
