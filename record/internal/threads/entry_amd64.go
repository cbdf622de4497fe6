package threads

// callInstruction is the instruction that makes a system call: syscall.
var callInstruction = []byte{0x0f, 0x05}
