package cupti

import "golang.org/x/sys/unix"

// pollCalls are the system calls that wait for descriptors.
var pollCalls = []uintptr{unix.SYS_POLL, unix.SYS_PPOLL, unix.SYS_SELECT, unix.SYS_PSELECT6}
