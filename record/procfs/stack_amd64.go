package procfs

import "strconv"

// StackBottom is the address at which the stack of a process's first thread began; ok is false if the process has ended
// or may not be read.
func StackBottom(pid int) (address uint64, ok bool) {
	fields := statFields(folder(pid))
	if len(fields) < 26 {
		return 0, false
	}
	address, err := strconv.ParseUint(fields[25], 10, 64) // startstack
	return address, err == nil && address != 0
}
