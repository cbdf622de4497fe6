package cupti

import "golang.org/x/sys/unix"

// pollCalls are the system calls that wait for descriptors.
var pollCalls = []uintptr{unix.SYS_PPOLL, unix.SYS_PSELECT6}
