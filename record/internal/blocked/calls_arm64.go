package blocked

// archCalls are the system calls that may block and that other processors lack.
var archCalls map[int64]systemCall
