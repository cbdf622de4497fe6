package callers

import "testing"

func TestCallBefore(t *testing.T) {
	const at = 0x1000
	for _, c := range []struct {
		name string
		code string
		want call
	}{
		{"rel32", "\xe8\x10\x00\x00\x00", call{true, true, at + 0x10}},
		{"rel32 back", "\x90\xe8\xf0\xff\xff\xff", call{true, true, at - 0x10}},
		{"register", "\xff\xd0", call{called: true}},
		{"register, REX", "\x41\xff\xd3", call{called: true}},
		{"memory", "\xff\x10", call{called: true}},
		{"memory+8", "\xff\x50\x08", call{called: true}},
		{"memory+8, SIB", "\x41\xff\x54\x24\x08", call{called: true}},
		{"memory+32 bits", "\xff\x90\x00\x01\x00\x00", call{called: true}},
		{"memory, SIB, 32 bits", "\xff\x94\xc8\x00\x01\x00\x00", call{called: true}},
		{"table", "\xff\x14\xc5\x00\x01\x00\x00", call{called: true}},
		{"relative", "\xff\x15\x00\x01\x00\x00", call{called: true}},
		{"notrack", "\x3e\xff\xd0", call{called: true}},
		{"jump", "\xe9\x10\x00\x00\x00", call{}},
		{"jump to memory", "\xff\x60\x08", call{}},
		{"push", "\xff\x70\x08", call{}},
		{"test", "\x85\xc0", call{}},
		{"too short", "\xe8\x10\x00\x00", call{}},
		{"nothing", "", call{}},
		{"one byte", "\xff", call{}},
		{"prefixes alone", "\x3e\x41", call{}},
	} {
		if got := callBeforeX86([]byte(c.code), at); got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestCallBeforeARM(t *testing.T) {
	const at = 0x1000
	for _, c := range []struct {
		name string
		code string
		want call
	}{
		{"bl forward", "\x04\x00\x00\x94", call{true, true, at - 4 + 16}},
		{"bl back", "\xfc\xff\xff\x97", call{true, true, at - 4 - 16}},
		{"blr x8", "\x00\x01\x3f\xd6", call{called: true}},
		{"blraa x8, x9", "\x09\x09\x3f\xd7", call{called: true}},
		{"blraaz x8", "\x1f\x09\x3f\xd6", call{called: true}},
		{"b", "\x04\x00\x00\x14", call{}},
		{"br x8", "\x00\x01\x1f\xd6", call{}},
		{"ret", "\xc0\x03\x5f\xd6", call{}},
		{"too short", "\x00\x00\x94", call{}},
	} {
		if got := callBeforeARM([]byte(c.code), at); got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := callBeforeARM([]byte("\x04\x00\x00\x94"), at+2); got != (call{}) {
		t.Errorf("at an odd address: %+v", got)
	}
}

func TestJumps(t *testing.T) {
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"rel32", jumpsX86([]byte("\x90\xe9\x0a\x00\x00\x00"), 16), true},
		{"rel32 back", jumpsX86([]byte("\xe9\xeb\xff\xff\xff"), 1<<64-16), true},
		{"rel8", jumpsX86([]byte("\x90\xeb\xed"), 1<<64-16), true},
		{"elsewhere", jumpsX86([]byte("\x90\xe9\x0a\x00\x00\x00"), 17), false},
		{"cut off", jumpsX86([]byte("\xe9\x0a\x00\x00"), 15), false},
		{"nothing", jumpsX86(nil, 0), false},
		{"b", jumpsARM([]byte("\x1f\x20\x03\xd5\x03\x00\x00\x14"), 16), true},
		{"b back", jumpsARM([]byte("\xfc\xff\xff\x17"), 1<<64-16), true},
		{"bl", jumpsARM([]byte("\x03\x00\x00\x94"), 12), false},
		{"through memory", jumpsAwayX86([]byte("\x90\xff\x25\x00\x00\x00\x00")), true},
		{"through a register", jumpsAwayX86([]byte("\x41\xff\xe3")), true},
		{"call through a register", jumpsAwayX86([]byte("\xff\xd0\xc3")), false},
		{"nothing that leads away", jumpsAwayX86([]byte("\xff")), false},
		{"br", jumpsAwayARM([]byte("\x1f\x20\x03\xd5\x00\x02\x1f\xd6")), true},
		{"ret", jumpsAwayARM([]byte("\xc0\x03\x5f\xd6")), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", c.name, c.got)
		}
	}
}

// What in the code of a function counts as a test of its callback's flag, and as its announcement.
func TestSignatureParts(t *testing.T) {
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"mov 0x34c(%rax), %edx", tests([]byte("\x8b\x90\x4c\x03\x00\x00"), 4*211), true},
		{"mov 0x34c(%r12), %edx", tests([]byte("\x41\x8b\x94\x24\x4c\x03\x00\x00"), 4*211), true},
		{"cmpl $0, 0x34c(%rax)", tests([]byte("\x83\xb8\x4c\x03\x00\x00\x00"), 4*211), true},
		{"mov 0x7c(%rax), %edx", tests([]byte("\x8b\x50\x7c"), 4*31), true},
		{"mov 0x7c(%rax), %edx with 32 bits", tests([]byte("\x8b\x90\x7c\x00\x00\x00"), 4*31), true},
		{"addl $0, 0x34c(%rax)", tests([]byte("\x83\x80\x4c\x03\x00\x00\x00"), 4*211), false},
		{"another flag", tests([]byte("\x8b\x90\x4c\x03\x00\x00"), 4*212), false},
		{"mov 0x34c, cut off", tests([]byte("\x8b\x90\x4c\x03"), 4*211), false},
		{"mov %edx, %eax", tests([]byte("\x8b\xc2\x4c\x03"), 4*211), false},
		{"call *8(%rax)", announces([]byte("\xff\x50\x08")), true},
		{"mov, call *8(%r12)", announces([]byte("\x4c\x89\xfe\x41\xff\x54\x24\x08")), true},
		{"call *16(%rax)", announces([]byte("\xff\x50\x10")), false},
		{"jmp *8(%rax)", announces([]byte("\xff\x60\x08")), false},
		{"too far", announces(append(make([]byte, callDistance), "\xff\x50\x08"...)), false},
		{"nothing", announces(nil) || tests(nil, 4), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", c.name, c.got)
		}
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		path, soname string
		want         kind
	}{
		{"/lib/libcuda.so.580.95.05", "libcuda.so.1", driverLibrary},
		{"/lib/renamed.so", "libcupti.so.13", driverLibrary},
		{"/lib/libcudart.so.13", "libcudart.so.13", runtimeShared},
		{"/lib/libcudart-abc123.so.13", "", runtimeShared},
		{"/lib/libcudart_static_user.so", "", unexamined},
		{"/lib/libcudadebugger.so.1", "", unexamined},
		{"/bin/app", "", unexamined},
	} {
		if got := kindOf(c.path, c.soname); got != c.want {
			t.Errorf("%s, %q: %d", c.path, c.soname, got)
		}
	}
}
