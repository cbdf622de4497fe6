package procfs

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Catches reports whether a process has a handler for a signal. It is for the door, which is there on x86-64 alone.
func Catches(pid int, signal unix.Signal) bool {
	status, err := Read(folder(pid)+"/status", MaxStatus)
	fields := statusFields(status, "SigCgt:")
	if err != nil || len(fields) == 0 {
		return false
	}
	caught, err := strconv.ParseUint(string(fields[0]), 16, 64)
	return err == nil && caught&(1<<(signal-1)) != 0
}
