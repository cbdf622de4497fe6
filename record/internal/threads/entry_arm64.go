package threads

// callInstruction is the instruction that makes a system call: svc #0.
var callInstruction = []byte{0x01, 0x00, 0x00, 0xd4}
