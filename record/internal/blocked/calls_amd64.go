package blocked

import "golang.org/x/sys/unix"

// archCalls are the system calls that may block and that other processors lack.
var archCalls = map[int64]systemCall{
	unix.SYS_POLL: {"poll", onPoll}, unix.SYS_SELECT: {"select", onSelect}, unix.SYS_EPOLL_WAIT: {"epoll_wait", onEpoll},
	unix.SYS_OPEN: {"open", onNothing}, unix.SYS_STAT: {"stat", onNothing}, unix.SYS_PAUSE: {"pause", onNothing},
}
